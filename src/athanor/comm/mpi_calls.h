// What the program needs of MPI, as a table of plain functions: the boundary between it and the module that is
// linked with MPI (mpi_calls.cpp -> athanor_mpi.so). The module is loaded only where mpirun has started the process,
// so that no other start pays for MPI's libraries, and the program runs where there are none.
//
// Calls that can fail return a text that lives until the next call, or null. One at a time: the caller locks.
#pragma once

#include <cstddef>

namespace athanor {

struct MpiCalls {
  static constexpr int kVersion = 1;
  int version;
  struct Request;  // of a message under way

  const char* (*start)(int* rank, int* size, int* largest_tag);
  const char* (*finish)();
  const char* (*send)(int to, int tag, const void* data, size_t size_bytes, Request** request);
  const char* (*recv)(int from, int tag, void* data, size_t size_bytes,
                      Request** request);  // from -1: anybody
  const char* (*test)(Request* request, bool* done);
  void (*cancel)(Request* request);  // asks; test() says when it is done
  void (*forget)(Request* request);  // frees it, done or not
};

// The module's one symbol.
extern "C" const MpiCalls* athanor_mpi_calls();

}  // namespace athanor
