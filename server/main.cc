// The program: the server around the LibTorch engine.
#include "engine/libtorch/check_model.h"
#include "engine/libtorch/engine_factory.h"
#include "engine/libtorch/families_table.h"
#include "server/program.h"

int main(int argc, char** argv) {
  return tributary::RunProgram({argv + 1, argv + argc}, tributary::CreateLibtorchEngine,
                               {.check = tributary::CheckModelFolder, .families = tributary::FamiliesTable},
                               {.version = TRIBUTARY_VERSION, .libtorch = tributary::LibtorchVersion()});
}
