// What the thread sanitizer says of the locks and threads within Gloo and Open MPI, whose code it sees only in part, is
// not about ours.
#if defined(__SANITIZE_THREAD__)
extern "C" const char*
__tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier): the sanitizer's name
extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "race:gloo::transport::tcp::\n"
         "called_from_lib:libopen-pal.so\n"
         "called_from_lib:libopen-rte.so\n"
         "called_from_lib:libmpi.so\n"
         "deadlock:mca_\n"
         "mutex:mca_\n"
         "race:mca_\n"
         "race:libmpi.so\n"
         "race:libopen-pal.so\n";
}
#endif
