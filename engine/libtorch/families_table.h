// The model families as a table for people: what --families prints and the README shows. Torch-free.
#pragma once

#include <string>

namespace tributary {

// Markdown, one row a family, from the registries the loaders use.
std::string FamiliesTable();

}  // namespace tributary
