"""What a figure was measured on."""
import os
import platform
import subprocess

# The sets of instructions that decide which kernels the contenders take.
ISA = ["avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx_vnni", "avx512_bf16", "avx512_fp16", "amx_tile",
       "amx_int8", "amx_bf16"]

# Where a library has a switch, its value that holds it to AVX2 (--isa avx2). ONNX Runtime and Hugging Face tokenizers have none;
# whether OpenVINO's copy of oneDNN reads oneDNN's was not checked. A switch of Tributary's own: --tributary-env.
AVX2_ENVIRONMENT = {
    "ATEN_CPU_CAPABILITY": "avx2",       # torch, LibTorch, Tributary's own kernels
    "ONEDNN_MAX_CPU_ISA": "AVX2",        # oneDNN: torch, LibTorch, CTranslate2
    "DNNL_MAX_CPU_ISA": "AVX2",
    "CT2_FORCE_CPU_ISA": "AVX2",         # CTranslate2's own kernels
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",   # MKL: torch, CTranslate2
}


def cpu_flags():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("flags"):
                return set(line.split(":")[1].split())
    return set()


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")


def has_bf16():
    return bool({"avx512_bf16", "amx_bf16"} & cpu_flags())


def has_vnni():
    return bool({"avx512_vnni", "avx_vnni", "amx_int8"} & cpu_flags())


def describe(isa):
    flags = cpu_flags()
    with open("/proc/meminfo", encoding="utf-8") as file:
        memory = int(file.readline().split()[1]) * 1024
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": memory,
        "flags": [name for name in ISA if name in flags],
        "isa": "all instructions" if isa == "native" else f"held to {isa} where the library has a switch",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
    }


def commit(root):
    found = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True,
                           check=False)
    return found.stdout.strip() or "unknown"


def contender_environment(threads, isa):
    """Of every contender's process."""
    environment = dict(os.environ)
    environment.update({
        "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads),
        "RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "true",
        # No model hub, no telemetry: everything is local.
        "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "DO_NOT_TRACK": "1", "INFINITY_ANONYMOUS_USAGE_STATS": "0",
        "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1",
    })
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # an older OpenBLAS's crutches, which slow a new one
        environment.pop(name, None)
    if isa == "avx2":
        environment.update(AVX2_ENVIRONMENT)
    return environment


def resident_megabytes(pid):
    """Of a process and its children: proportional set size, so that pages they share count once. None: it is gone."""
    total = 0
    for member in [pid, *descendants(pid)]:
        try:
            with open(f"/proc/{member}/smaps_rollup", encoding="utf-8") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except OSError:  # gone, or going
            continue
    return total / 1024 or None


def cpu_seconds(pid):
    """User and system time of a process and its children, so far."""
    ticks = 0
    for member in [pid, *descendants(pid)]:
        try:
            with open(f"/proc/{member}/stat", encoding="utf-8") as file:
                values = file.read().rsplit(")", 1)[1].split()
            ticks += int(values[11]) + int(values[12])
        except (OSError, IndexError):
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def descendants(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task") if os.path.exists(f"/proc/{pid}/task") else []:
        try:
            with open(f"/proc/{pid}/task/{task}/children", encoding="utf-8") as file:
                children = [int(child) for child in file.read().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found
