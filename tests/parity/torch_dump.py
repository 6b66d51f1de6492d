#!/usr/bin/python3
"""PyTorch in the place of the program that live_parity.py compares with PyTorch: shows that limits and files work.

  /usr/bin/python3 -m tests.parity.live_parity tests/parity/torch_dump.py
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from tests.parity import cases  # pylint: disable=wrong-import-position
from tests.parity import safetensors_file  # pylint: disable=wrong-import-position


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", required=True)
    parser.add_argument("--precision", required=True, choices=("fp32", "bf16", "fp64"))
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    safetensors_file.write(args.out, cases.run(cases.Case.read(args.case), args.precision))


if __name__ == "__main__":
    main()
