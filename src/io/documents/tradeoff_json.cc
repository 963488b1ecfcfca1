#include "io/documents/tradeoff_json.h"

#include "io/documents/checkpoint_descriptions.h"
#include "io/json/json_writer.h"

namespace plimsoll::io {

std::string write_tradeoffs(const TradeoffAnswer& answer) {
  TradeoffDocument document;
  document.answer = answer;
  return write_document(document);
}

}  // namespace plimsoll::io
