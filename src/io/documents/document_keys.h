// The keys of every document type, as the readers know them: what the published schemas must say.
#pragma once

#include <string>
#include <vector>

#include "io/json/json_reader.h"

namespace plimsoll::io {

struct TypeKeys {
  std::string schema;      // "model", "plan": whose
  std::string definition;  // under its "$defs"; empty: the document itself
  std::vector<KeyInfo> keys;
};

std::vector<TypeKeys> document_keys();

}  // namespace plimsoll::io
