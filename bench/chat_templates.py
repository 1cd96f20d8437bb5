"""Chat templates against Jinja itself: reads what bench/chat_templates.mjs dumped, renders it as transformers does.

    python3 bench/chat_templates.py DUMP          # needs Jinja2 (Debian: python3-jinja2)
"""
import datetime
import json
import pathlib
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    """{% generation %}: only the text matters here."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = datetime.datetime(2024, 7, 26).strftime
    return env


def main():
    equal = total = refused = templates = equal_templates = 0
    by_name = {}
    for file in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
        data = json.loads(file.read_text())
        template = environment().from_string(data["source"])
        same, first = 0, ""
        for talk, ours in zip(data["talks"], data["ours"] + [{"error": "no line"}] * len(data["talks"])):
            try:
                theirs = {"text": template.render(**{**talk, **data["tokens"], "add_generation_prompt": data["prompt"]})}
            except Exception as error:  # whatever Python raises is a refusal
                theirs = {"error": f"{type(error).__name__}: {error}"}
            alike = "error" in ours if "error" in theirs else ours.get("text") == theirs["text"]
            same += alike
            refused += alike and "error" in theirs
            if not alike and not first:
                first = json.dumps({"talk": talk, "ours": ours, "theirs": theirs}, ensure_ascii=False)[:1500]
        equal += same
        total += len(data["talks"])
        name = file.name.rsplit(".", 2)[0]
        by_name.setdefault(name, True)
        by_name[name] &= same == len(data["talks"])
        if first:
            print(f"{file.name}: {same} of {len(data['talks'])} equal\n    first difference: {first}")
    equal_templates, templates = sum(by_name.values()), len(by_name)
    print(f"{equal_templates} of {templates} templates, {equal} of {total} conversations equal ({refused} refused by both)")


main()
