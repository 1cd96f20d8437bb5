// One namespace per folder and per subfolder: comm/shm/ is athanor::comm::shm. `athanor` has using-directives for all folders.
#pragma once
namespace athanor {
namespace base {}
namespace masks {}
namespace config {}
namespace tensor {}
namespace kernels {}
namespace comm {
namespace shm {}
namespace network {
namespace gloo {}
namespace mpi {}
using namespace gloo;
using namespace mpi;
}  // namespace network
namespace nccl {}
namespace hierarchical {}
using namespace shm;
using namespace network;
using namespace nccl;
using namespace hierarchical;
}  // namespace comm
namespace store {}
namespace autograd {}
namespace ops {}
namespace nn {}
namespace optim {}
namespace parallel {
namespace data {}
namespace tensor {}
namespace context {}
namespace expert {}
namespace compression {}
namespace parameter_server {}
using namespace data;
using namespace tensor;
using namespace context;
using namespace expert;
using namespace compression;
using namespace parameter_server;
}  // namespace parallel
namespace pipeline {}
namespace layout {}
namespace text {  // a tokenizer has models and trainers, too: athanor shows only what text/ offers to others (tokenizer.h)
namespace models {}
namespace normalizers {}
namespace pre_tokenizers {}
namespace decoders {}
namespace trainers {}
using namespace models;
using namespace normalizers;
using namespace pre_tokenizers;
using namespace decoders;
using namespace trainers;
}  // namespace text
namespace documents {}
namespace corpus {
namespace heuristics {}
namespace dedup {}
namespace privacy {}
namespace language {}
namespace perplexity {}
namespace classifier {}
namespace passes {}
namespace report {}
namespace filters {}
using namespace heuristics;
using namespace dedup;
using namespace privacy;
using namespace language;
using namespace perplexity;
using namespace classifier;
using namespace passes;
using namespace report;
using namespace filters;
}  // namespace corpus
namespace data {
namespace packing {}
using namespace packing;
}  // namespace data
namespace checkpoint {
namespace format {}
using namespace format;
}  // namespace checkpoint
namespace models {
namespace gpt2 {}
namespace llama {}
namespace moe {}
using namespace gpt2;
using namespace llama;
using namespace moe;
}  // namespace models
namespace observe {}
namespace control {}
namespace evaluate {}
namespace engine {
namespace replicas {}
using namespace replicas;
}  // namespace engine
namespace run {
namespace decisions {}
namespace tuning {}
using namespace decisions;
using namespace tuning;
}  // namespace run
namespace verify {}
namespace launch {
namespace diagnosis {}
namespace environment {}
namespace keeper {}
namespace master {}
namespace output {}
namespace warm_up {}
using namespace diagnosis;
using namespace environment;
using namespace keeper;
using namespace master;
using namespace output;
using namespace warm_up;
}  // namespace launch
namespace chaos {}
using namespace athanor::base;
using namespace athanor::masks;
using namespace athanor::config;
using namespace athanor::tensor;
using namespace athanor::kernels;
using namespace athanor::comm;
using namespace athanor::store;
using namespace athanor::autograd;
using namespace athanor::ops;
using namespace athanor::nn;
using namespace athanor::optim;
using namespace athanor::parallel;
using namespace athanor::pipeline;
using namespace athanor::layout;
using namespace athanor::documents;
using namespace athanor::corpus;
using namespace athanor::data;
using namespace athanor::checkpoint;
using namespace athanor::models;
using namespace athanor::observe;
using namespace athanor::control;
using namespace athanor::evaluate;
using namespace athanor::engine;
using namespace athanor::run;
using namespace athanor::verify;
using namespace athanor::launch;
using namespace athanor::chaos;
}  // namespace athanor
