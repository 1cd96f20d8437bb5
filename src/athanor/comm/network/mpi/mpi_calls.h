// The functions of MPI that the program needs, as a table of function pointers: the boundary to a module that is linked
// with MPI (mpi_calls.cpp -> athanor_mpi.so). The module is loaded only if mpirun has started the process. So other
// starts do not load MPI's libraries, and the program runs on machines without them.
//
// Functions that can fail return an error text that is valid until the next call, or null. Thread rule: one call at a
// time; the caller locks.
#pragma once

#include <cstddef>

#include "athanor/base/namespaces.h"

namespace athanor::comm::network::mpi {

struct MpiCalls {
  static constexpr int kVersion = 1;
  int version;
  struct Request;  // a message under way

  const char* (*start)(int* rank, int* size, int* largest_tag);
  const char* (*finish)();
  const char* (*send)(int to, int tag, const void* data, size_t size_bytes, Request** request);
  // from -1: any rank.
  const char* (*recv)(int from, int tag, void* data, size_t size_bytes, Request** request);
  const char* (*test)(Request* request, bool* done);
  void (*cancel)(Request* request);  // requests cancellation; test() says when the request is done
  void (*forget)(Request* request);  // frees it, done or not
};

// The module's one symbol.
extern "C" const MpiCalls* athanor_mpi_calls();

}  // namespace athanor::comm::network::mpi
