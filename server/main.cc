// The program: the server around the LibTorch engine.
#include "engine/libtorch/engine_factory.h"
#include "server/program.h"

int main(int argc, char** argv) {
  return tributary::RunProgram({argv + 1, argv + argc}, tributary::CreateLibtorchEngine,
                               {.version = TRIBUTARY_VERSION, .libtorch = tributary::LibtorchVersion()});
}
