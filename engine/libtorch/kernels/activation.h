// What follows a linear layer's product, element by element.
#pragma once

#include <cstdint>

namespace tributary {

// kGelu: by the error function; kGeluTanh: its tanh approximation.
enum class Activation : uint8_t { kNone, kGelu, kGeluTanh, kRelu, kSilu };

}  // namespace tributary
