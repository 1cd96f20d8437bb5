"""The peers beside us: what bench/compare.sh runs. Sections are functions; each yields Work."""
import argparse
import datetime
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


class Run:
    """What one process printed, how long it took and the most memory it held."""

    def __init__(self, command, environment=None):
        words = PREFIX + [str(word) for word in command]
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            start = time.perf_counter()
            process = subprocess.Popen(words, stdout=out, stderr=err, cwd=WORKPLACE,
                                       env={**os.environ, **(environment or {})})
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.seconds = time.perf_counter() - start
            self.peak_bytes = usage.ru_maxrss * 1024
            out.seek(0), err.seek(0)
            self.out, self.err = out.read(), err.read()
        if process.returncode != 0:
            sys.exit(f"compare: {shlex.join(words)} ended with {process.returncode}:\n{self.err[-2000:]}")

    def json(self):
        return json.loads(self.out)

    def number(self, pattern):
        return float(re.search(pattern, self.out + self.err).group(1))


def athanor(*words):
    return Run([ARGS.athanor, *words])


def athanor_bench(*words):
    return Run([str(Path(ARGS.athanor).with_name("athanor-bench")), *words])


def python(script, *words):
    return Run(["/usr/bin/python3", "-B", script, *words], {"OMP_NUM_THREADS": str(ARGS.threads)})


class Work:
    """One comparison. ours() and peer() give a number each, and both may add to `notes`."""

    def __init__(self, name, unit, ours, peer=None, peer_name="", smaller_is_better=False, bound=None):
        self.name, self.unit, self.ours, self.peer, self.peer_name = name, unit, ours, peer, peer_name
        self.smaller_is_better, self.bound = smaller_is_better, bound
        self.notes = {}

    def note(self, key, value):
        self.notes.setdefault(key, []).append(value)
        return value

    def measure(self, section):
        ours, peers = [], []
        for pair in range(ARGS.pairs):
            turns = [(self.ours, ours)] + ([(self.peer, peers)] if self.peer else [])
            for call, values in turns if pair % 2 == 0 else reversed(turns):
                values.append(call(self))
        line = {"section": section, "work": self.name, "unit": self.unit, "pairs": ARGS.pairs, "ours": ours}
        text = f"{section:<16} {self.name:<42} {median(ours):10.4g} {self.unit}"
        if peers:
            ratios = [(p / o if self.smaller_is_better else o / p) for o, p in zip(ours, peers)]
            line |= {"peer": self.peer_name, "peers": peers, "ratios": ratios, "ratio": median(ratios)}
            text += (f", {self.peer_name} {median(peers):.4g}: {median(ratios):.2f}x"
                     f" ({min(ratios):.2f} to {max(ratios):.2f})")
        else:
            text += f" ({min(ours):.4g} to {max(ours):.4g})"
        if self.bound is not None:
            line["bound"] = self.bound
            text += f", asked for {self.bound:g}"
        for key, values in self.notes.items():
            line[key] = values
            text += f"; {key} {median(values):.4g}" if isinstance(values[0], (int, float)) else f"; {key} {values[-1]}"
        print(text, flush=True)
        emit(line)
        return line


def emit(line):
    ARGS.output.parent.mkdir(parents=True, exist_ok=True)
    with open(ARGS.output, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def hardware():
    model = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text()).group(1)
    memory = int(re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text()).group(1))
    doctor = athanor("doctor", "--json").json()
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return {"hardware": f"{model}, {len(os.sched_getaffinity(0))} processors, {memory / 2**20:.0f} GiB",
            "isa": doctor["isa"], "kernel": os.uname().release, "commit": commit.stdout.strip(),
            "time": datetime.datetime.now().isoformat(timespec="seconds"), "threads": ARGS.threads}


ISAS = ["generic", "avx2", "avx512", "avx512_bf16", "amx"]


def peer_dtype():
    """What PyTorch and oneDNN are fastest in: without AVX-512 they have no fast products of bf16"""
    return "bf16" if ISAS.index(HARDWARE["isa"]) >= ISAS.index("avx512") else "f32"


# ---- whole steps -----------------------------------------------------------------------------------------------------

def our_step(preset, dtype, batch, seq, steps, *words):
    def call(work):
        run = athanor("bench", "step", "--preset", preset, "--dtype", dtype, "--batch", batch, "--seq", seq,
                      "--steps", steps, "--threads", ARGS.threads, "--json", *words)
        report = run.json()
        work.note("mfu", report["mfu"])
        work.note("our_peak_bytes", run.peak_bytes)
        return report["tokens_per_second"]
    return call


def torch_step(arch, dtype, batch, seq, steps, vocab):
    def call(work):
        run = python(ARGS.peers / "torch_gpt2_step.py", "--arch", arch, "--dtype", {"f32": "fp32"}.get(dtype, dtype),
                     "--batch", batch, "--seq", seq, "--steps", steps, "--threads", ARGS.threads, "--vocab", vocab)
        work.note("peer_peak_bytes", run.peak_bytes)
        return run.number(r"([\d.]+) tok/s")
    return call


def step():
    """GPT-2 124M and LLaMA 125M steps over PyTorch's, tokens/s; memory of the process at 4x1024"""
    for preset, arch, vocab, seq, steps, bound in (("gpt2-124m", "gpt2", 50304, 256, 3, 4.0),
                                                   ("gpt2-124m", "gpt2", 50304, 1024, 2, 5.0),
                                                   ("llama-125m", "llama", 32000, 256, 3, 3.5)):
        work = Work(f"{preset} bf16 4x{seq}", "tokens/s", our_step(preset, "bf16", 4, seq, 2 * steps),
                    torch_step(arch, peer_dtype(), 4, seq, steps, vocab), f"PyTorch {peer_dtype()}", bound=bound)
        yield work
        if seq == 1024:  # the processes above, not new ones
            ours, peers = work.notes["our_peak_bytes"], work.notes["peer_peak_bytes"]
            memory = Work("peak memory of the 4x1024 step", "bytes, ours over theirs",
                          lambda _: ours.pop(0) / peers.pop(0), bound=0.6)
            memory.notes = {"our_bytes": list(ours), "peer_bytes": list(peers)}
            yield memory


def fallback():
    """The 4x256 GPT-2 step with lower instruction sets than the machine's, down to AVX2, over PyTorch's own best"""
    lower = ISAS[ISAS.index("avx2"):ISAS.index(HARDWARE["isa"])]
    if not lower:
        print(f"fallback: skipped, the machine has {HARDWARE['isa']} at most", flush=True)
    for isa in reversed(lower):
        yield Work(f"gpt2-124m bf16 4x256 --isa {isa}", "tokens/s",
                   our_step("gpt2-124m", "bf16", 4, 256, 2, "--isa", isa),
                   torch_step("gpt2", peer_dtype(), 4, 256, 2, 50304), f"PyTorch {peer_dtype()}")


def llmc():
    """GPT-2 124M f32 4x64 over llm.c's CPU trainer (--llmc FOLDER), tokens/s"""
    if not ARGS.llmc:
        print("llmc: skipped, no --llmc FOLDER (a checkout of karpathy/llm.c)", flush=True)
        return
    program = WORKPLACE / "llmc_step"
    subprocess.run(["gcc", "-Ofast", "-march=native", "-fopenmp", "-DOMP", "-Wno-unused-result",
                    "-Wno-unknown-pragmas", "-I", ARGS.llmc, HERE / "llmc_step.c", "-lm", "-o", program], check=True)

    def peer(_):
        run = Run([program, 3, WORKPLACE / "random_weights.bin"], {"OMP_NUM_THREADS": str(ARGS.threads)})
        times = [float(value) for value in re.findall(r"step_ms ([\d.]+)", run.out)]
        return 4 * 64 / median(times) * 1e3
    yield Work("gpt2-124m f32 4x64", "tokens/s", our_step("gpt2-124m", "f32", 4, 64, 5), peer, "llm.c", bound=6.0)


# ---- parts -----------------------------------------------------------------------------------------------------------

def gemm():
    """The products of GPT-2 124M and LLaMA 125M over oneDNN with packed weights (interleaved by athanor-bench gemm)"""
    for preset in ("gpt2-124m", "llama-125m"):
        def ours(work, preset=preset):
            report = athanor_bench("gemm", "--preset", preset, "--dtype", peer_dtype(), "--threads", ARGS.threads,
                             "--json").json()
            work.note("least", report["min"])
            work.note("geometric_mean_all_packed", report["geometric_mean_packed"])
            work.note("least_all_packed", report["min_packed"])
            worst = min(report["products"], key=lambda product: product["ratio"])
            work.note("worst", "{product} {m}x{n}x{k}".format(**worst))
            return report["geometric_mean"]
        yield Work(f"products of {preset}, {peer_dtype()}, 1024 tokens", "x oneDNN, geometric mean", ours, bound=1.1)


def attention():
    """Attention forward and backward at T = 2048 over PyTorch's fastest, ms"""
    def ours(_):
        report = athanor_bench("attention", "--batch", 1, "--seq", 2048, "--heads", 12, "--head-dim", 64, "--dtype",
                         "bf16", "--threads", ARGS.threads, "--json").json()
        return report["forward"]["ms"]["median"] + report["backward"]["ms"]["median"]

    def peer(work):
        report = python(HERE / "attention_torch.py", "--dtype", peer_dtype(), "--threads", ARGS.threads,
                        "--steps", 3).json()
        work.note("peer_way", report["best"])
        return report["ms"]
    yield Work("attention bf16, 1x2048, 12 heads of 64", "ms", ours, peer, f"PyTorch {peer_dtype()}",
               smaller_is_better=True, bound=5.0)


def optimizer():
    """The AdamW pass, share of the copy bandwidth measured between its calls"""
    def ours(work):
        report = athanor_bench("optimizer", "--threads", ARGS.threads, "--json").json()
        work.note("gbytes_per_second", report["gbytes_per_second"])
        return report["of_copy"]
    yield Work("AdamW over 124M parameters, bf16 copies", "of copy bandwidth", ours, bound=0.8)


def data():
    """The loader's time per token against a step's, gpt2-124m 4x256"""
    def ours(work):
        report = athanor_bench("data", "synthetic", "--preset", "gpt2-124m", "--threads", ARGS.threads,
                         "--json").json()
        work.note("ns_per_token", report["ns_per_token"]["median"])
        return report["percent_of_step"]
    yield Work("reading, packing, shuffling", "% of a step", ours, bound=1.0)


def checkpoint():
    """Writing, verifying and reading a checkpoint beside plain files of the same size"""
    def ours(work):
        report = athanor_bench("checkpoint", "--preset", "llama-tiny", "--json").json()
        for part in ("write", "verify", "read"):
            work.note(part + "_over_plain", report[part]["over_plain"])
        return report["write"]["gbytes_per_second"]
    yield Work("checkpoint of llama-tiny", "GB/s written", ours)


def comm():
    """All-reduce between processes over Open MPI (bench/compare_comm.sh)"""
    script = HERE / "compare_comm.sh"
    if not script.exists():
        print("comm: skipped, there is no bench/compare_comm.sh", flush=True)
        return
    subprocess.run([*PREFIX, script, ARGS.peers], check=True)
    yield from ()


# ---- runs ------------------------------------------------------------------------------------------------------------

def write_tokens(prefix, vocab, documents, length):
    """Random ids as .bin and .idx (docs: src/athanor/data/indexed_dataset.h)."""
    random = Random(1)
    with open(f"{prefix}.bin", "wb") as file:
        for _ in range(documents):
            file.write(struct.pack(f"<{length}H", *(random.randrange(vocab) for _ in range(length))))
    with open(f"{prefix}.idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, documents, documents + 1))
        file.write(struct.pack(f"<{documents}i", *[length] * documents))
        file.write(struct.pack(f"<{documents}q", *(2 * length * i for i in range(documents))))
        file.write(struct.pack(f"<{documents + 1}q", *range(documents + 1)))


def write_config(name, preset, vocab, seq, batch, micro_batch, steps, threads):
    write_tokens(WORKPLACE / name, vocab, documents=40, length=2000)
    if not (WORKPLACE / "tokenizer.json").exists():  # a run wants one; the ids know nothing of it
        (WORKPLACE / "letters.txt").write_text("abcdefghijklmnopqrstuvwxyz\n")
        athanor("tokenizer", "train", "--type", "char", "--output", "tokenizer.json", "letters.txt")
    (WORKPLACE / f"{name}.toml").write_text(f"""
[model]
preset = "{preset}"
vocab_size = {vocab}
[data]
channels = [ {{name = "random", path = "{name}"}} ]
tokenizer = "tokenizer.json"
seq_len = {seq}
valid_fraction = 0.0
[train]
name = "{name}"
steps = {steps}
global_batch_size = {batch}
micro_batch_size = {micro_batch}
eval_every = 0
threads = {threads}
[precision]
compute = "bf16"
[checkpoint]
every_steps = 0
""")
    return f"{name}.toml"


def run_report(name, *words):
    """The report of a training run that leaves nothing behind."""
    athanor(*words)
    folder = WORKPLACE / "runs" / name
    report = json.loads((folder / "report.json").read_text())
    shutil.rmtree(folder)
    return report


def ranks():
    """Two ranks of one thread over one rank of two, gpt2-124m, 16x512 tokens a step, tokens/s"""
    two = write_config("two", "gpt2-124m", 50257, 512, 16, 4, 4, 1)
    one = write_config("one", "gpt2-124m", 50257, 512, 16, 4, 4, 2)
    yield Work("2 ranks x 1 thread, gpt2-124m 16x512", "tokens/s",
               lambda _: run_report("two", "launch", "-n", 2, "--", "train", two)["tokens_per_second"],
               lambda _: run_report("one", "train", one)["tokens_per_second"], "1 rank x 2 threads", bound=0.9)


def start():
    """From the start of the process to the end of its first step, llama-tiny, prepared data, s"""
    file = write_config("tiny", "llama-tiny", 8192, 256, 32, 4, 1, ARGS.threads)
    yield Work("start to first step, llama-tiny", "s",
               lambda _: run_report("tiny", "train", file)["time_to_first_step_seconds"], bound=0.5)


def tinyshakespeare():
    """The character-level run (bench/tinyshakespeare.toml) over PyTorch f32, better of 1 and 2 threads, steps/s"""
    text = ARGS.text
    if not text or not text.exists():
        print("tinyshakespeare: skipped, no --text FILE and no $ATHANOR_TEST_DATA/tinyshakespeare.txt", flush=True)
        return
    shutil.copy(HERE / "tinyshakespeare.toml", WORKPLACE)
    shutil.copy(text, WORKPLACE / "tinyshakespeare.txt")
    athanor("tokenizer", "train", "--type", "char", "--output", "char.json", text)
    athanor("train", "tinyshakespeare.toml", "--set", "train.steps=2", "--set", "train.name=warm")  # tokenizes

    def ours(dtype):
        def call(work):
            rates = {}
            for threads in (1, 2):
                report = run_report("tinyshakespeare", "train", "tinyshakespeare.toml", "--set", "train.steps=300",
                                    "--set", f"precision.compute={dtype}", "--set", f"train.threads={threads}")
                rates[threads] = report["tokens_per_second"] / (12 * 64)
            work.note("our_threads", max(rates, key=rates.get))
            return max(rates.values())
        return call

    def peer(work):
        rates = {}
        for threads in (1, 2):
            report = python(ROOT / "tests/golden/tinyshakespeare_torch.py", "--text", text, "--threads", threads,
                            "--steps", 100).json()
            rates[threads] = report["steps"] / report["train_seconds"]
        work.note("peer_threads", max(rates, key=rates.get))
        return max(rates.values())
    yield Work("tinyshakespeare f32", "steps/s", ours("f32"), peer, "PyTorch f32", bound=4.0)
    yield Work("tinyshakespeare bf16", "steps/s", ours("bf16"), peer, "PyTorch f32", bound=8.0)


SECTIONS = [step, llmc, gemm, attention, optimizer, data, checkpoint, ranks, start, tinyshakespeare, fallback, comm]


def parse_args():
    parser = argparse.ArgumentParser(
        prog="bench/compare.sh", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs the peers beside us, interleaved, and prints ratios.",
        epilog="sections:\n" + "\n".join(f"  {section.__name__:<16} {section.__doc__}" for section in SECTIONS))
    parser.add_argument("peers", type=Path, metavar="PEERS_FOLDER", help="with torch_gpt2_step.py")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="all if none is named")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--athanor", type=Path, default=ROOT / "build/release/athanor")
    parser.add_argument("--llmc", type=Path, help="a checkout of karpathy/llm.c")
    parser.add_argument("--text", type=Path, help="tinyshakespeare.txt; else in the folder that ATHANOR_TEST_DATA names")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "compare.jsonl", help="lines are added to it")
    parser.add_argument("--prefix", default="", help="a command before every other, such as 'nice -n -10'")
    args = parser.parse_intermixed_args()
    known = {section.__name__: section for section in SECTIONS}
    for name in args.sections:
        if name not in known:
            parser.error(f"section: got '{name}', expected one of {', '.join(known)}")
    args.sections = [known[name] for name in args.sections] or SECTIONS
    if args.pairs < 1:
        parser.error(f"--pairs: got {args.pairs}, expected at least 1")
    for name in ("peers", "athanor", "llmc", "output"):
        if getattr(args, name):
            setattr(args, name, getattr(args, name).resolve())
    if not (args.peers / "torch_gpt2_step.py").exists():
        parser.error(f"'{args.peers}' has no torch_gpt2_step.py")
    if not args.athanor.exists():
        parser.error(f"'{args.athanor}' does not exist; build it first")
    if not args.text and os.environ.get("ATHANOR_TEST_DATA"):
        args.text = Path(os.environ["ATHANOR_TEST_DATA"]) / "tinyshakespeare.txt"
    args.text = args.text and args.text.resolve()
    return args


ARGS = parse_args()
PREFIX = shlex.split(ARGS.prefix)
with tempfile.TemporaryDirectory(prefix="athanor-compare-") as folder:
    WORKPLACE = Path(folder)
    HARDWARE = hardware()
    emit(HARDWARE)
    for section in ARGS.sections:
        for work in section():
            work.measure(section.__name__)
