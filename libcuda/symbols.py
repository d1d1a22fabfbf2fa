#!/usr/bin/env python3
"""Lists the symbols of CUDA's driver from its headers: `symbols.py INCLUDE > symbols.tsv`.

Each line has a symbol, the name by which cuGetProcAddress finds it, the CUDA version from which this is what the name means
(1000 times the major version, 10 times the minor), and `ptsz` or `ptds` for those of the per-thread default stream.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

include = sys.argv[1]
HEADERS = ["cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h"]
TYPEDEFS = ["cudaTypedefs.h", "cudaProfilerTypedefs.h", "cudaGLTypedefs.h", "cudaEGLTypedefs.h", "cudaVDPAUTypedefs.h"]
# Headers of graphics that those include. Only names are looked for, so their types are not needed.
GRAPHICS = ["GL/gl.h", "EGL/egl.h", "EGL/eglext.h"]

declared = set()
with tempfile.TemporaryDirectory() as empty:
    for header in GRAPHICS:
        path = pathlib.Path(empty, header)
        path.parent.mkdir(exist_ok=True)
        path.touch()
    for header in HEADERS:
        command = ["cc", "-E", "-P", "-D__CUDA_API_VERSION_INTERNAL", f"-I{empty}", f"-I{include}", f"{include}/{header}"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        declared |= set(re.findall(r"\b(cu[A-Z]\w*)\s*\(", text))

found = collections.defaultdict(set)
for header in TYPEDEFS:
    for base, since, kind in re.findall(r"\*PFN_(cu\w+?)_v(\d+)(?:_(ptsz|ptds))?\)", open(f"{include}/{header}").read()):
        found[base, kind].add(int(since))
        # The profiler's functions are in a header of their own, which not every package has.
        if header == "cudaProfilerTypedefs.h":
            declared.add(base)

# What a name means from a version on, where this is not the next of its variants.
OTHERS = {("cuGraphInstantiate", 12000): "cuGraphInstantiateWithFlags"}
lines = []
for (base, kind), versions in found.items():
    end = f"_{kind}" if kind else ""
    variants = [base, *(f"{base}_v{at}" for at in range(2, 9))]
    variants = [name + end for name in variants if name + end in declared]
    # A version that lacks its own symbol is older than those of the header.
    versions = sorted(versions)[-len(variants):] if variants else []
    for symbol, since in zip(variants[-len(versions):], versions):
        lines.append((symbol, base, since, kind))
    for (name, since), symbol in OTHERS.items():
        if name == base and symbol + end in declared:
            lines.append((symbol + end, base, since, kind))
listed = {line[0] for line in lines}
for symbol in declared - listed:
    kind = symbol.rsplit("_", 1)[-1]
    lines.append((symbol, "", 0, kind if kind in ("ptsz", "ptds") else ""))
for line in sorted(lines):
    print("\t".join(map(str, line)).rstrip())
