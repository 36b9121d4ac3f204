"""The command line: `claimbook check | accept | site | pdf | run | ledger | net | new`."""

import argparse
import json
import pathlib
import signal
import sys

from . import build, net, new, pdf
from .book import UsageError, find_book
from .ledger import ClaimError, ledger, tally
from .run import accepting, rerun


def main(argv=None) -> int:
    """Exit code: 0 all is as stated, 1 something is not, 2 it stopped before anything ran."""
    arguments = _parser().parse_args(argv)
    try:
        return arguments.command(arguments) or 0
    except UsageError as error:
        print(f"claimbook: {error}", file=sys.stderr)
        return 2
    except (ClaimError, OSError) as error:
        print(f"claimbook: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _parser():
    parser = argparse.ArgumentParser(prog="claimbook", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name, do, **words):
        added = commands.add_parser(name, **words)
        added.set_defaults(command=do)
        return added

    check = command("check", lambda a: build.check(find_book(a.book)),
                    help="run the chapters that changed, and compare every output")
    accept = command("accept", lambda a: build.accept(find_book(a.book), a.chapters),
                     help="run chapters and record their outputs")
    accept.add_argument("chapters", nargs="*", metavar="CHAPTER",
                        help="name or number (default: all of them)")
    site = command("site", lambda a: build.site(find_book(a.book)),
                   help="build the site from the recorded outputs")
    paper = command("pdf", lambda a: pdf.main(find_book(a.book)),
                    help="print the site as one PDF, with Chromium")
    run = command("run", _run, help="run a chapter at other parameters, show every verdict")
    run.add_argument("chapter", metavar="CHAPTER", help="path, stem (05_sensitivity) or number (5)")
    run.add_argument("-p", dest="settings", action="append", default=[], metavar="NAME=VALUES",
                     help="a parameter; values with commas between them make a grid")
    run.add_argument("-o", dest="output", type=pathlib.Path, metavar="OUTDIR",
                     help="keep the executed notebooks and verdicts.csv here")
    run.add_argument("-j", dest="jobs", type=int, help="runs at a time (default: one a core)")
    run.add_argument(
        "--scheduler", metavar="ADDRESS",
        help="run on the workers of this dask scheduler, who see the book's folder "
        "under the same path")
    write = command("ledger", _ledger, help="write the ledger as JSON")
    write.add_argument("-o", dest="output", type=pathlib.Path, metavar="FILE",
                       help="file (default: standard output)")
    faults = command("net", lambda a: net.main(find_book(a.book), a.breaks),
                     help="record which claims catch which deliberate faults")
    faults.add_argument("breaks", nargs="*", metavar="BREAK",
                        help="name of a fault in breaks.toml (default: all of them)")
    record = command("record", lambda a: build.record(find_book(a.book), a.chapter))
    record.add_argument("chapter", type=pathlib.Path)  # `accept` calls it, in a process for each
    for each in check, accept, site, paper, run, write, faults, record:
        each.add_argument("--book", type=pathlib.Path, metavar="DIR",
                          help="the folder that holds claims.toml")
    begin = command("new", lambda a: new.write(a.folder),
                    help="write the smallest book of verified claims")
    begin.add_argument("folder", type=pathlib.Path, metavar="FOLDER")
    return parser


def _run(a):
    good = rerun(find_book(a.book), a.chapter, a.settings, a.output, a.jobs, a.scheduler)
    return int(not good)


def _ledger(arguments):
    book = find_book(arguments.book).folder
    with accepting("DIR", book, "a folder whose chapters and claims.toml can be read"):
        rows = ledger(book)
    text = json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    if arguments.output:
        with accepting("FILE", arguments.output, "a file that can be written"):
            arguments.output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    print(tally(rows), file=sys.stderr)
    return 0
