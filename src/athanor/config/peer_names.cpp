#include "athanor/config/peer_names.h"

#include <algorithm>
#include <cctype>

namespace athanor::config {
namespace {

struct PeerNames {
  const char* ours;
  const char* note;
  std::vector<std::string_view> theirs;  // lower case, without '_'; with a table in front: there only
};

// Our own names of before come first, each with its table. The others are those of Hugging Face, nanoGPT, llm.c,
// Megatron-LM, DeepSpeed, torchtitan, nanotron, TRL, Lightning, fairseq.
const std::vector<PeerNames>& key_table() {
  static const std::vector<PeerNames> table = {
      {"model.model_type", "", {"model.family"}},
      {"model.num_hidden_layers", "", {"model.layers"}},
      {"model.hidden_size", "", {"model.width"}},
      {"model.num_attention_heads", "", {"model.heads"}},
      {"model.num_key_value_heads", "", {"model.kvheads"}},
      {"model.intermediate_size", "", {"model.ffnwidth"}},
      {"model.max_position_embeddings", "", {"model.maxseqlen"}},
      {"model.tie_word_embeddings", "", {"model.tieembeddings"}},
      {"model.rope_theta", "", {"model.ropebase"}},
      {"model.rms_norm_eps", "", {"model.normeps"}},
      {"model.initializer_range", "", {"model.initstd"}},
      {"model.num_experts", "", {"model.experts"}},
      {"model.num_experts_per_tok", "", {"model.expertspertoken"}},
      {"model.moe_intermediate_size", "", {"model.expertwidth"}},
      {"model.n_shared_experts", "", {"model.sharedexperts"}},
      {"model.first_k_dense_replace", "", {"model.denselayers"}},
      {"model.scoring_func", "", {"model.router"}},
      {"model.norm_topk_prob", "", {"model.routerrenormalize"}},
      {"model.routed_scaling_factor", "", {"model.routerscale"}},
      {"model.router_aux_loss_coef", "", {"model.routerauxloss"}},
      {"model.router_z_loss_coef", "", {"model.routerzloss"}},
      {"model.router_bias_update_rate", "", {"model.routerbiasrate"}},
      {"train.global_batch_size", "", {"train.globalbatch"}},
      {"train.micro_batch_size", "", {"train.microbatch"}},
      {"train.initial_eval_tokens", "", {"train.firstevaltokens"}},
      {"optimizer.max_grad_norm", "", {"optimizer.clipnorm"}},
      {"parallel.zero_stage", "", {"parallel.zero"}},
      {"parallel.cp_method", "", {"parallel.cpkind"}},
      {"parallel.load_balance", "", {"parallel.balance"}},
      {"parallel.load_balance_every", "", {"parallel.balanceevery"}},
      {"parallel.shard_degree", "", {"parallel.zeroshard"}},
      {"local_sgd.sync_interval", "", {"parallel.syncevery"}},
      {"local_sgd.group_size", "", {"parallel.syncgroup"}},
      {"local_sgd.outer_lr", "", {"parallel.outerlr"}},
      {"local_sgd.outer_momentum", "", {"parallel.outermomentum"}},
      {"local_sgd.compression", "", {"parallel.outercompression"}},
      {"snapshot.every_steps", "", {"checkpoint.flasheverysteps"}},
      {"compression.method", "", {"parallel.compression"}},
      {"compression.ratio", "", {"parallel.compressionratio"}},
      {"compression.rank", "", {"parallel.compressionrank"}},
      {"compression.warmup_steps", "", {"parallel.compressionwarmup"}},
      {"compression.error_feedback", "", {"parallel.errorfeedback"}},
      {"parameter_server.servers", "", {"parallel.servers"}},
      {"parameter_server.consistency", "", {"parallel.consistency"}},
      {"parameter_server.staleness", "", {"parallel.staleness"}},
      {"parameter_server.replay", "", {"parallel.replay"}},
      {"data.document_mask",
       "document_mask = true is what attend_across_documents = false was",
       {"data.attendacrossdocuments"}},
      {"model.config", "", {"configname", "modelconfig", "configpath"}},
      {"model.model_type", "", {"modeltype", "architecture", "architectures", "arch"}},
      {"model.num_hidden_layers",
       "",
       {"numhiddenlayers", "nlayer", "nlayers", "numlayers", "depth", "numblocks"}},
      {"model.hidden_size",
       "",
       {"hiddensize", "dmodel", "nembd", "dim", "embeddim", "embdim", "modeldim", "embeddingsize", "nembed"}},
      {"model.num_attention_heads", "", {"numattentionheads", "nhead", "nheads", "numheads"}},
      {"model.num_key_value_heads",
       "",
       {"numkeyvalueheads", "nkvheads", "nkvhead", "numkvheads", "numquerygroups", "nquerygroups"}},
      {"model.head_dim", "", {"kvchannels", "headsize", "dhead"}},
      {"model.intermediate_size",
       "",
       {"intermediatesize", "ffnhiddensize", "hiddendim", "ffndim", "dff", "ninner", "mlpdim", "ffnsize"}},
      {"model.vocab_size", "", {"nvocab", "paddedvocabsize", "vocabularysize"}},
      {"model.max_position_embeddings",
       "",
       {"maxpositionembeddings", "npositions", "nctx", "maxsequencelength"}},
      {"model.tie_word_embeddings",
       "",
       {"tiewordembeddings", "tieweights", "weighttying", "shareembeddingsandoutputweights"}},
      {"model.bias", "", {"attentionbias", "mlpbias", "usebias", "addbiaslinear"}},
      {"model.dropout",
       "",
       {"attnpdrop", "residpdrop", "embdpdrop", "hiddendropout", "attentiondropout", "hiddendropoutprob",
        "dropoutp"}},
      {"model.rope_theta", "", {"ropetheta", "rotarybase", "ropefreqbase", "rotaryembbase"}},
      {"model.rope_scaling", "", {"ropetype", "ropescalingtype"}},
      {"model.rope_factor",
       "",
       {"ropescalingfactor", "ropefactor", "rotaryscalingfactor", "rotaryseqleninterpolationfactor",
        "yarnrotaryscalingfactor"}},
      {"model.rope_original_length",
       "",
       {"originalmaxpositionembeddings", "yarnoriginalmaxpositionembeddings", "originalseqlen"}},
      {"model.rope_low_freq_factor", "", {"lowfreqfactor"}},
      {"model.rope_high_freq_factor", "", {"highfreqfactor"}},
      {"model.rope_beta_fast", "", {"betafast", "yarnbetafast"}},
      {"model.rope_beta_slow", "", {"betaslow", "yarnbetaslow"}},
      {"model.rope_attention_factor", "", {"attentionfactor", "yarnattentionfactor"}},
      {"model.rms_norm_eps", "", {"rmsnormeps", "layernormepsilon", "layernormeps", "normepsilon"}},
      {"model.initializer_range", "", {"initializerrange", "initmethodstd"}},
      {"model.num_experts", "", {"numexperts", "numlocalexperts", "nroutedexperts", "moenumexperts"}},
      {"model.num_experts_per_tok",
       "",
       {"numexpertspertok", "numexpertspertoken", "moeroutertopk", "moetopk", "topk"}},
      {"model.moe_intermediate_size", "", {"moeintermediatesize", "moeffnhiddensize"}},
      {"model.n_shared_experts", "", {"nsharedexperts", "numsharedexperts"}},
      {"model.first_k_dense_replace", "", {"firstkdensereplace"}},
      {"model.scoring_func", "", {"scoringfunc", "moerouterscorefunction"}},
      {"model.norm_topk_prob", "", {"normtopkprob"}},
      {"model.routed_scaling_factor", "", {"routedscalingfactor", "moeroutertopkscalingfactor"}},
      {"model.router_aux_loss_coef",
       "",
       {"routerauxlosscoef", "auxlossalpha", "moeauxlosscoeff", "auxlosscoef", "loadbalancingloss"}},
      {"model.router_z_loss_coef", "", {"routerzlosscoef", "moezlosscoeff", "zlosscoef"}},
      {"model.router_bias_update_rate", "", {"routerbiasupdaterate", "moerouterbiasupdaterate"}},
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
        "iterations", "iters", "numtrainingsteps", "trainsteps", "maxupdate", "maxupdates",
        "totalnumupdate"}},
      {"train.steps",
       "steps = epochs x training tokens / (train.global_batch_size x data.seq_len)",
       {"numtrainepochs", "epochs", "numepochs", "maxepochs"}},
      {"train.steps",
       "steps = tokens / (train.global_batch_size x data.seq_len)",
       {"maxtokens", "traintokens", "trainingtokens", "totaltokens"}},
      {"train.global_batch_size",
       "in sequences",
       {"batchsize", "trainbatchsize", "globalbatchsize", "totalbatchsize", "bs"}},
      {"train.global_batch_size",
       "accumulation follows: train.global_batch_size / (train.micro_batch_size x data-parallel ranks)",
       {"gradientaccumulationsteps", "gradaccumsteps", "gradaccum", "accumulategradbatches",
        "gradientaccumulation", "accumulationsteps", "batchaccumulationperreplica"}},
      {"train.micro_batch_size",
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
      {"optimizer.max_grad_norm",
       "",
       {"maxgradnorm", "gradclip", "clipgrad", "gradientclipping", "clipgradnorm", "gradientclipval",
        "maxnorm", "gradnormclip"}},
      {"schedule.decay",
       "",
       {"lrschedulertype", "lrdecaystyle", "lrschedule", "scheduler", "schedulertype", "decaylr", "decaytype",
        "lrscheduler"}},
      {"schedule.warmup_steps",
       "",
       {"numwarmupsteps", "warmupiters", "lrwarmupiters", "lrwarmupsteps", "warmupiterations", "warmup",
        "warmupupdates"}},
      {"schedule.warmup_init_ratio", "a fraction of optimizer.lr", {"warmupinitlr", "lrwarmupinit"}},
      {"schedule.warmup_steps", "in steps, not a share of them", {"warmupratio", "lrwarmupfraction"}},
      {"schedule.min_lr_ratio",
       "a fraction of optimizer.lr",
       {"minlr", "lrmin", "finallr", "mindecaylr", "minlrfactor", "learningratedecayfrac", "lrend",
        "endlearningrate"}},
      {"schedule.power", "", {"polypower", "lrpower", "polynomialpower", "polylrpower"}},
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
      {"parallel.zero_stage",
       "0 to 3; FSDP is 3",
       {"zerostage", "zerooptimization", "fsdp", "usedistributedoptimizer", "shardingstrategy"}},
      {"parallel.shard_degree", "", {"sharddegree", "dataparallelsharddegree", "hsdp"}},
      {"parallel.recompute",
       "",
       {"activationcheckpointing", "gradientcheckpointing", "checkpointactivations", "recomputegranularity",
        "recomputeactivations", "activationcheckpoint"}},
      {"parallel.schedule", "", {"pipelineschedule", "pipelineparallelschedule", "ppengine"}},
      {"local_sgd.sync_interval", "", {"syncinterval", "localsteps", "diloco", "localsgd", "innersteps"}},
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
      {"linear", {"lineardecay", "linearwithwarmup", "triangular"}},
      {"polynomial", {"poly", "polynomialdecay", "polynomialwithwarmup"}},
      {"inverse_sqrt", {"noam", "rsqrt", "inversesquareroot", "inversesqrtdecay", "rsqrtdecay"}},
      {"ntk", {"ntkaware", "ntkscaled"}},
      {"gpt2", {"gpt", "nanogpt", "gpt2lmheadmodel"}},
      {"llama", {"llama2", "llama3", "llamaforcausallm"}},
      {"mixtral", {"mixtralforcausallm"}},
      {"moe", {"deepseek", "deepseekv3", "mixtureofexperts"}},
      {"cuda", {"gpu", "cuda0", "nvidia"}},
      {"full", {"all", "block", "true", "always"}},
      {"disk", {"ssd", "file"}},
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

PeerKey find_peer_key(std::string_view section, std::string_view name) {
  const std::string word = plain(name), with_section = plain(section) + "." + word;
  for (const std::string& wanted : {with_section, word})
    for (const PeerNames& names : key_table())
      if (holds(names.theirs, wanted)) return {names.ours, names.note, wanted == with_section};
  return {};
}

std::string peer_value(std::string_view value, const std::vector<std::string>& choices) {
  const std::string word = plain(value);
  for (const PeerValues& values : value_table())
    if (holds(values.theirs, word) && std::find(choices.begin(), choices.end(), values.ours) != choices.end())
      return values.ours;
  return "";
}

}  // namespace athanor::config
