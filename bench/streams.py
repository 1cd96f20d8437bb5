#!/usr/bin/env python3
"""Jobs that train on what a producer writes into their standard input, killed at random instants.

  bench/streams.py [--kills N] [--seed S] [PROGRAM]

For 1, 2 and 3 ranks: a pipe is fed in pieces of random sizes while `launch -n RANKS -- train` reads it, and at random instants a
rank, or all processes of the job, get SIGKILL; where all died, the same command is started again on the same pipe. What a job has
trained on in the end must be what one undisturbed process has: losses and norms of each step with all digits, the digest of the
last checkpoint, and the hash of the ledger.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

CONFIG = """[model]
model_type = "llama"
num_hidden_layers = 2
hidden_size = 32
num_attention_heads = 4
num_key_value_heads = 2
intermediate_size = 64
[data]
channels = [ {name = "live", path = "-", weight = 3}, {name = "grows", path = "incoming", follow = true},
             {name = "there", path = "there.txt"} ]
tokenizer = "tokenizer.json"
seq_len = 32
shuffle_window = 16
[train]
steps = 100000
global_batch_size = 10
micro_batch_size = 2
eval_every = 0
threads = 1
[schedule]
decay = "constant"
[precision]
compute = "f32"
[parallel]
reduce = "tree"
[checkpoint]
every_steps = 10
"""


def words(rng, count):
    return " ".join("".join(rng.choice("abcdefghijklmnop") for _ in range(rng.randint(1, 9))) for _ in range(count))


def processes_of(group_leader):
    """The job's process and all below it."""
    found = [group_leader]
    for one in found:
        try:
            with open(f"/proc/{one}/task/{one}/children") as children:
                found += [int(child) for child in children.read().split()]
        except OSError:
            pass
    return found


def ranks_of(job):
    ranks = []
    for pid in processes_of(job):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ:
                if b"\0RANK=" in b"\0" + environ.read():
                    ranks.append(pid)
        except OSError:
            pass
    return ranks


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Place:
    def __init__(self, program, folder, seed):
        self.program, self.folder = program, folder
        rng = random.Random(seed)
        self.lines = "".join(json.dumps({"text": words(rng, 50)}) + "\n" for _ in range(90)).encode()
        for name, text in (("run.toml", CONFIG), ("there.txt", words(rng, 4000)), ("incoming/_SUCCESS", "")):
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)
        for number in range(40):
            with open(os.path.join(folder, f"incoming/{number:03}.txt"), "w") as file:
                file.write(words(rng, 60))
        self.run("tokenizer", "train", "--type", "char", "--output", "tokenizer.json", "there.txt")

    def run(self, *arguments, **more):
        return subprocess.run([self.program, *arguments], cwd=self.folder, check=True, capture_output=True, **more).stdout

    def history(self, name):
        with open(os.path.join(self.folder, "runs", name, "metrics.jsonl")) as file:
            steps = [json.loads(line) for line in file]
        keys = ("step", "tokens", "loss", "grad_norm", "channel_loss")
        digest = self.run("checkpoint", "digest", f"runs/{name}").split()[0]
        ledger = self.run("dataset", "verify", "--ledger", f"runs/{name}").split()[0]
        return [[step.get(key) for key in keys] for step in steps], digest, ledger


def trial(place, ranks, name, rng, num_kills):
    """What was killed; the history."""
    reader, writer = os.pipe()

    def feed():
        at = 0
        while at < len(place.lines):
            size = rng.randint(1, 4000)
            os.write(writer, place.lines[at:at + size])
            at += size
            time.sleep(rng.random() * 0.04)
        os.close(writer)

    def start():
        return subprocess.Popen([place.program, "launch", "-n", str(ranks), "--", "train", "run.toml", "--set", f"train.name={name}"],
                                cwd=place.folder, stdin=reader, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    feeder = threading.Thread(target=feed)
    feeder.start()
    job, struck = start(), []
    for _ in range(num_kills):
        time.sleep(rng.random() * 0.5)
        if job.poll() == 0:
            break
        if job.poll() is not None:
            job = start()
        if rng.random() < 0.3:
            pids = processes_of(job.pid)
            kill(pids)
            job.communicate()
            struck.append("all")
            job = start()
        else:
            alive = ranks_of(job.pid)
            if alive:
                kill([rng.choice(alive)])
                struck.append("rank")
    errors = job.communicate()[1].decode()
    while "3 times at step" in errors:  # the launcher has given up, as it must: the same command goes on
        struck.append("given up")
        job = start()
        errors = job.communicate()[1].decode()
    feeder.join()
    os.close(reader)
    if job.returncode != 0:
        sys.exit(f"streams: {name}: exit code {job.returncode} after {struck}:\n{errors}")
    return struck, place.history(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="for each number of ranks (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("program", nargs="?", default="build/release/athanor")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Place(os.path.abspath(arguments.program), folder, arguments.seed)
        place.run("train", "run.toml", "--set", "train.name=whole", input=place.lines)
        expected = place.history("whole")
        print(f"undisturbed: {len(expected[0])} steps, digest {expected[1].decode()}, ledger {expected[2].decode()}")
        differ = 0
        for ranks in (1, 2, 3):
            rng = random.Random(arguments.seed * 100 + ranks)
            kills, trials, whole = 0, 0, 0
            while kills < arguments.kills:
                struck, history = trial(place, ranks, f"r{ranks}-{trials}", rng, num_kills=5)
                kills, trials, whole = kills + len(struck) - struck.count("given up"), trials + 1, whole + struck.count("all")
                if history != expected:
                    differ += 1
                    print(f"r{ranks}-{trials - 1}: differs after {struck}")
            print(f"{ranks} ranks: {kills} kills in {trials} jobs, {whole} of them of all processes", flush=True)
        print("all equal" if differ == 0 else f"{differ} differ")
        sys.exit(1 if differ else 0)


main()
