#include "athanor/config/peer_names.h"

#include <algorithm>
#include <cctype>

namespace athanor {
namespace {

struct PeerNames {
  const char* ours;
  const char* note;
  std::vector<std::string_view> theirs;  // lower case, without '_'
};

// Hugging Face, nanoGPT, llm.c, Megatron-LM, DeepSpeed, torchtitan, nanotron, TRL, Lightning.
const std::vector<PeerNames>& key_table() {
  static const std::vector<PeerNames> table = {
      {"model.family", "", {"modeltype", "architecture", "architectures", "arch"}},
      {"model.layers", "", {"numhiddenlayers", "nlayer", "nlayers", "numlayers", "depth", "numblocks"}},
      {"model.width",
       "",
       {"hiddensize", "dmodel", "nembd", "dim", "embeddim", "embdim", "modeldim", "embeddingsize", "nembed"}},
      {"model.heads", "", {"numattentionheads", "nhead", "nheads", "numheads"}},
      {"model.kv_heads",
       "",
       {"numkeyvalueheads", "nkvheads", "nkvhead", "numkvheads", "numquerygroups", "nquerygroups"}},
      {"model.head_dim", "", {"kvchannels", "headsize", "dhead"}},
      {"model.ffn_width",
       "",
       {"intermediatesize", "ffnhiddensize", "hiddendim", "ffndim", "dff", "ninner", "mlpdim", "ffnsize"}},
      {"model.vocab_size", "", {"nvocab", "paddedvocabsize", "vocabularysize"}},
      {"model.max_seq_len", "", {"maxpositionembeddings", "npositions", "nctx", "maxsequencelength"}},
      {"model.tie_embeddings",
       "",
       {"tiewordembeddings", "tieweights", "weighttying", "shareembeddingsandoutputweights"}},
      {"model.bias", "", {"attentionbias", "mlpbias", "usebias", "addbiaslinear"}},
      {"model.dropout",
       "",
       {"attnpdrop", "residpdrop", "embdpdrop", "hiddendropout", "attentiondropout", "hiddendropoutprob",
        "dropoutp"}},
      {"model.rope_base", "", {"ropetheta", "rotarybase", "ropefreqbase", "rotaryembbase"}},
      {"model.norm_eps", "", {"rmsnormeps", "layernormepsilon", "layernormeps", "normepsilon"}},
      {"model.init_std", "", {"initializerrange", "initmethodstd"}},
      {"model.experts", "", {"numexperts", "numlocalexperts", "nroutedexperts", "moenumexperts"}},
      {"model.experts_per_token",
       "",
       {"numexpertspertok", "numexpertspertoken", "moeroutertopk", "moetopk", "topk"}},
      {"model.expert_width", "", {"moeintermediatesize", "moeffnhiddensize"}},
      {"model.shared_experts", "", {"nsharedexperts", "numsharedexperts"}},
      {"model.dense_layers", "", {"firstkdensereplace"}},
      {"model.router", "", {"scoringfunc", "moerouterscorefunction"}},
      {"model.router_renormalize", "", {"normtopkprob"}},
      {"model.router_scale", "", {"routedscalingfactor", "moeroutertopkscalingfactor"}},
      {"model.router_aux_loss",
       "",
       {"routerauxlosscoef", "auxlossalpha", "moeauxlosscoeff", "auxlosscoef", "loadbalancingloss"}},
      {"model.router_z_loss", "", {"routerzlosscoef", "moezlosscoeff", "zlosscoef"}},
      {"model.router_bias_rate", "", {"routerbiasupdaterate", "moerouterbiasupdaterate"}},
      {"model.capacity_factor", "", {"moeexpertcapacityfactor", "expertcapacityfactor"}},
      {"data.channels",
       "",
       {"dataset", "datasets", "datasetname", "datasetpath", "datapath", "traindata", "traindatapath",
        "trainfile", "trainfiles", "inputbin", "datamixture", "datablend", "sources"}},
      {"data.tokenizer",
       "",
       {"tokenizerpath", "tokenizername", "tokenizerfile", "tokenizermodel", "tokenizernameorpath"}},
      {"data.seq_len",
       "",
       {"blocksize", "seqlength", "sequencelength", "sequencelen", "maxseqlength", "contextlength",
        "contextsize", "contextlen", "cutofflen", "maxlength"}},
      {"data.valid_fraction",
       "",
       {"validationsplit", "valsize", "valfraction", "testsize", "validationsplitpercentage", "evalsplit"}},
      {"data.cache", "", {"cachedir", "datacachepath"}},
      {"data.text_key", "", {"textcolumn", "textcolumnname", "datasettextfield", "textfield", "jsonkeys"}},
      {"train.name", "", {"runname", "expname", "experimentname", "wandbrunname"}},
      {"train.runs",
       "the run is train.runs/train.name",
       {"outputdir", "outdir", "savedir", "outputpath", "dumpfolder", "logdir"}},
      {"train.init_from",
       "",
       {"modelnameorpath", "pretrainedmodelnameorpath", "pretrainedmodel", "pretrained", "basemodel",
        "initcheckpoint", "finetunefrom"}},
      {"train.steps",
       "",
       {"maxsteps", "maxiters", "trainiters", "numsteps", "numiterations", "totalsteps", "trainingsteps",
        "iterations", "iters", "numtrainingsteps", "trainsteps"}},
      {"train.steps",
       "steps = epochs x training tokens / (train.global_batch x data.seq_len)",
       {"numtrainepochs", "epochs", "numepochs", "maxepochs"}},
      {"train.steps",
       "steps = tokens / (train.global_batch x data.seq_len)",
       {"maxtokens", "traintokens", "trainingtokens", "totaltokens"}},
      {"train.global_batch",
       "in sequences",
       {"batchsize", "trainbatchsize", "globalbatchsize", "totalbatchsize", "bs"}},
      {"train.global_batch",
       "accumulation follows: train.global_batch / (train.micro_batch x data-parallel ranks)",
       {"gradientaccumulationsteps", "gradaccumsteps", "gradaccum", "accumulategradbatches",
        "gradientaccumulation", "accumulationsteps", "batchaccumulationperreplica"}},
      {"train.micro_batch",
       "in sequences",
       {"microbatchsize", "perdevicetrainbatchsize", "perdevicebatchsize", "trainmicrobatchsizepergpu",
        "devicebatchsize", "localbatchsize"}},
      {"train.seed", "", {"randomseed", "manualseed", "dataseed", "rngseed"}},
      {"train.eval_every",
       "in steps",
       {"evalsteps", "evalinterval", "valcheckinterval", "vallossevery", "validationinterval",
        "evalfrequency"}},
      {"train.eval_tokens", "", {"evaliters", "valmaxsteps", "limitvalbatches", "evaltokens"}},
      {"train.device", "", {"accelerator", "devicetype", "usecuda", "usecpu", "nocuda"}},
      {"train.threads", "", {"numthreads", "numworkers", "ompnumthreads", "dataloadernumworkers"}},
      {"train.log_every",
       "in steps",
       {"loggingsteps", "loginterval", "loggingfreq", "logfreq", "logeverynsteps"}},
      {"optimizer.name", "", {"optim", "optimizertype", "optimizername"}},
      {"optimizer.lr", "", {"learningrate", "maxlr", "peaklr", "baselr"}},
      {"optimizer.betas", "[beta1, beta2]", {"adambeta1", "adambeta2", "beta1", "beta2", "adambetas"}},
      {"optimizer.eps", "", {"adamepsilon", "adameps", "epsilon"}},
      {"optimizer.weight_decay", "", {"wd", "l2", "decayweight"}},
      {"optimizer.clip_norm",
       "",
       {"maxgradnorm", "gradclip", "clipgrad", "gradientclipping", "clipgradnorm", "gradientclipval",
        "maxnorm", "gradnormclip"}},
      {"schedule.decay",
       "",
       {"lrschedulertype", "lrdecaystyle", "lrschedule", "scheduler", "schedulertype", "decaylr", "decaytype",
        "lrscheduler"}},
      {"schedule.warmup_steps",
       "",
       {"numwarmupsteps", "warmupiters", "lrwarmupiters", "lrwarmupsteps", "warmupiterations", "warmup"}},
      {"schedule.warmup_steps", "in steps, not a share of them", {"warmupratio", "lrwarmupfraction"}},
      {"schedule.min_lr_ratio",
       "a fraction of optimizer.lr",
       {"minlr", "lrmin", "finallr", "mindecaylr", "minlrfactor", "learningratedecayfrac"}},
      {"precision.compute",
       "f32, bf16 or f16",
       {"dtype", "torchdtype", "mixedprecision", "fp16", "bf16", "fp32", "float16", "bfloat16", "float32",
        "amp", "usefp16", "usebf16", "modeldtype", "paramsdtype", "mixedprecisionparam"}},
      {"precision.loss_scale", "", {"initialscalepower", "initscale", "initiallossscale"}},
      {"parallel.dp", "", {"dataparallelsize", "dataparalleldegree", "dpsize"}},
      {"parallel.tp",
       "",
       {"tensormodelparallelsize", "tensorparallelsize", "tensorparalleldegree", "tensorparallel", "tpsize",
        "modelparallelsize"}},
      {"parallel.pp",
       "",
       {"pipelinemodelparallelsize", "pipelineparallelsize", "pipelineparalleldegree", "ppsize"}},
      {"parallel.cp", "", {"contextparallelsize", "contextparalleldegree", "cpsize"}},
      {"parallel.ep", "", {"expertmodelparallelsize", "expertparallelsize", "expertparalleldegree"}},
      {"parallel.sp", "", {"sequenceparallel", "enablesequenceparallel"}},
      {"parallel.zero",
       "0 to 3; FSDP is 3",
       {"zerostage", "zerooptimization", "fsdp", "usedistributedoptimizer", "shardingstrategy"}},
      {"parallel.zero_shard", "", {"sharddegree", "dataparallelsharddegree", "hsdp"}},
      {"parallel.recompute",
       "",
       {"activationcheckpointing", "gradientcheckpointing", "checkpointactivations", "recomputegranularity",
        "recomputeactivations", "activationcheckpoint"}},
      {"parallel.schedule", "", {"pipelineschedule", "pipelineparallelschedule", "ppengine"}},
      {"parallel.sync_every", "", {"syncinterval", "localsteps", "diloco", "localsgd", "innersteps"}},
      {"offload.optimizer", "", {"offloadoptimizer", "cpuoffload", "optimizercpuoffload"}},
      {"offload.parameters", "", {"offloadparam"}},
      {"checkpoint.every_steps",
       "",
       {"savesteps", "saveinterval", "checkpointinterval", "saveevery", "checkpointevery", "saveeverynsteps",
        "saveeverysteps"}},
      {"checkpoint.keep", "", {"savetotallimit", "keeplast", "savetopk", "keeplatestk"}},
      {"launch.timeout_ms", "in milliseconds", {"ddptimeout", "nccltimeout", "distributedtimeoutminutes"}},
  };
  return table;
}

struct PeerValues {
  const char* ours;
  std::vector<std::string_view> theirs;
};

const std::vector<PeerValues>& value_table() {
  static const std::vector<PeerValues> table = {
      {"f32", {"fp32", "float32", "float", "single", "torchfloat32", "32", "tf32"}},
      {"bf16", {"bfloat16", "bfp16", "bf16mixed", "torchbfloat16"}},
      {"f16", {"fp16", "float16", "half", "torchfloat16", "16", "16mixed"}},
      {"8bit", {"int8", "fp8", "bnb8bit", "adamw8bit", "adam8bit", "uint8"}},
      {"adamw", {"adam", "adamwtorch", "adamwtorchfused", "fusedadam", "adamwhf", "adamwfused"}},
      {"sgd", {"momentum", "sgdmomentum"}},
      {"constant", {"none", "constantwithwarmup", "fixed"}},
      {"wsd", {"warmupstabledecay", "trapezoidal"}},
      {"cosine", {"cosinewithminlr", "cosineannealing"}},
      {"linear", {"polynomial"}},
      {"gpt2", {"gpt", "nanogpt", "gpt2lmheadmodel"}},
      {"llama", {"llama2", "llama3", "llamaforcausallm"}},
      {"moe", {"mixtral", "mixtralforcausallm", "deepseek", "deepseekv3"}},
      {"cuda", {"gpu", "cuda0", "nvidia"}},
      {"full", {"all", "block", "true", "always"}},
      {"disk", {"nvme", "ssd", "file"}},
      {"host", {"cpu", "ram"}},
      {"zb-h1", {"zerobubble", "zb1p", "zbh1"}},
      {"interleaved", {"interleaved1f1b", "schedinterleaved1f1b"}},
      {"none", {"false", "off", "no"}},
      {"int8", {"8bit"}},
      {"ulysses", {"a2a", "alltoall"}},
      {"ring", {"p2p", "allgather"}},
  };
  return table;
}

std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != '_' && c != '-' && c != '.' && c != ' ')
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool holds(const std::vector<std::string_view>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

PeerKey find_peer_key(std::string_view name) {
  const std::string word = plain(name);
  for (const PeerNames& names : key_table())
    if (holds(names.theirs, word)) return {names.ours, names.note};
  return {};
}

std::string peer_value(std::string_view value, const std::vector<std::string>& choices) {
  const std::string word = plain(value);
  for (const PeerValues& values : value_table())
    if (holds(values.theirs, word) && std::find(choices.begin(), choices.end(), values.ours) != choices.end())
      return values.ours;
  return "";
}

}  // namespace athanor
