// A library with the face of NVML, for the tests of the GPU monitor: what it answers is set by fake_nvml_set.
// FAKE_NVML_NO_POWER, FAKE_NVML_NO_COUNT: variants that lack a function.
#include "tests/server/fake_nvml.h"

#include <array>
#include <cstring>
#include <mutex>

namespace {
std::mutex g_mutex;  // one state per loaded library, as NVML has
tributary::FakeNvml g_fake;
int g_initialised = 0;

tributary::FakeNvml Fake() {
  std::lock_guard lock(g_mutex);
  return g_fake;
}

struct Utilization {
  unsigned int gpu;
  unsigned int memory;
};
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

std::array<char, 2> g_handles;  // only their addresses matter

unsigned int IndexOf(const void* device) { return device == &g_handles[0] ? 0 : 1; }
}  // namespace

extern "C" {
void fake_nvml_set(const tributary::FakeNvml* fake) {
  std::lock_guard lock(g_mutex);
  g_fake = *fake;
}
int fake_nvml_initialised() { return g_initialised; }

int nvmlInit_v2() {
  if (Fake().init == 0) ++g_initialised;
  return Fake().init;
}
int nvmlShutdown() {
  --g_initialised;
  return 0;
}
#ifndef FAKE_NVML_NO_COUNT
int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = Fake().devices;
  return Fake().count;
}
#endif
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  if (index >= Fake().devices) return 2;
  *device = &g_handles[index];
  return Fake().handle[index];
}
int nvmlDeviceGetName(void* device, char* name, unsigned int length) {
  std::strncpy(name, IndexOf(device) == 0 ? "Fake GPU" : "Fake GPU 2", length - 1);
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned int length) {
  std::strncpy(uuid, IndexOf(device) == 0 ? "GPU-0" : "GPU-1", length - 1);
  return 0;
}
int nvmlDeviceGetUtilizationRates(void* device, Utilization* utilization) {
  if (Fake().utilization != 0) return Fake().utilization;
  utilization->gpu = 40 + IndexOf(device);
  utilization->memory = 10;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  if (Fake().memory != 0) return Fake().memory;
  *memory = {1000, 600, 400};
  return 0;
}
#ifndef FAKE_NVML_NO_POWER
int nvmlDeviceGetPowerUsage(void*, unsigned int* milliwatts) {
  *milliwatts = 123500;
  return 0;
}
#endif
int nvmlDeviceGetTemperature(void*, int sensor, unsigned int* celsius) {
  *celsius = 55;
  return sensor == 0 ? 0 : 2;
}
int nvmlDeviceGetClockInfo(void*, int clock, unsigned int* megahertz) {
  *megahertz = clock == 1 ? 1980 : 2619;
  return clock == 1 || clock == 2 ? 0 : 2;
}
}
