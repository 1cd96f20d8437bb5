#include "athanor/comm/network/mpi/mpi_calls.h"

#include <mpi.h>

namespace athanor::comm::network::mpi {

struct MpiCalls::Request {
  MPI_Request handle = MPI_REQUEST_NULL;
};

namespace {

char error_text[MPI_MAX_ERROR_STRING + 1];

const char* text_of(int code) {
  if (code == MPI_SUCCESS) return nullptr;
  int length = 0;
  MPI_Error_string(code, error_text, &length);
  error_text[length] = '\0';
  return error_text;
}

const char* start(int* rank, int* size, int* largest_tag) {
  int level = MPI_THREAD_SINGLE;
  if (const char* error = text_of(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level)))
    return error;
  if (level < MPI_THREAD_SERIALIZED) return "this MPI allows calls from one thread only";
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
  int* bound = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&bound), &found);
  *largest_tag = found != 0 ? *bound : 32767;  // the minimum that the MPI standard guarantees
  return nullptr;
}

const char* finish() {
  return text_of(MPI_Finalize());
}

// The caller tests the requests; the analyzer expects waits in this file.
// NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker)
const char* send(int to, int tag, const void* data, size_t size_bytes, MpiCalls::Request** request) {
  *request = new MpiCalls::Request;
  return text_of(
      MPI_Isend(data, static_cast<int>(size_bytes), MPI_BYTE, to, tag, MPI_COMM_WORLD, &(*request)->handle));
}

const char* recv(int from, int tag, void* data, size_t size_bytes, MpiCalls::Request** request) {
  *request = new MpiCalls::Request;
  return text_of(MPI_Irecv(data, static_cast<int>(size_bytes), MPI_BYTE, from < 0 ? MPI_ANY_SOURCE : from,
                           tag, MPI_COMM_WORLD, &(*request)->handle));
}

// NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)
const char* test(MpiCalls::Request* request, bool* done) {
  int flag = 0;
  const char* error = text_of(MPI_Test(&request->handle, &flag, MPI_STATUS_IGNORE));
  *done = flag != 0;
  return error;
}

void cancel(MpiCalls::Request* request) {
  if (request->handle != MPI_REQUEST_NULL) MPI_Cancel(&request->handle);
}

void forget(MpiCalls::Request* request) {
  if (request->handle != MPI_REQUEST_NULL) MPI_Request_free(&request->handle);
  delete request;
}

constexpr MpiCalls kCalls = {MpiCalls::kVersion, start, finish, send, recv, test, cancel, forget};

}  // namespace

extern "C" const MpiCalls* athanor_mpi_calls() {
  return &kCalls;
}

}  // namespace athanor::comm::network::mpi
