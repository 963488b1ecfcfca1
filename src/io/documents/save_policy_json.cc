#include "io/documents/save_policy_json.h"

#include "io/documents/checkpoint_descriptions.h"
#include "io/json/json_writer.h"

namespace plimsoll::io {

std::string write_save_policy(const SavePolicyAnswer& answer) {
  SavePolicyDocument document;
  document.answer = answer;
  document.certificate = make_certificate_entry(*answer.certificate);
  return write_document(document);
}

}  // namespace plimsoll::io
