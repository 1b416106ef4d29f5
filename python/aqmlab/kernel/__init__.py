"""Kernels in virtual time (User-Mode Linux), and live runs in them."""

from aqmlab.kernel.build import build
from aqmlab.kernel.kernel import Kernel, KernelError, find
from aqmlab.kernel.runs import run

__all__ = ["Kernel", "KernelError", "build", "find", "run"]
