# cmake -DMODELS=DIR -DSCHEMAS=DIR -DOUTPUT=FILE.cc -P embed_texts.cmake
#
# Writes the shipped models and schemas as raw string literals, sorted by name, into one source file
# (embedded_texts.h declares what it defines).
cmake_minimum_required(VERSION 3.22)

set(code "// Generated from data/ by embed_texts.cmake.\n#include \"io/embedded_texts.h\"\n\n")
string(APPEND code "namespace plimsoll::io {\n\n")

string(APPEND code "const std::vector<ShippedModel>& embedded_models() {\n")
string(APPEND code "  static const std::vector<ShippedModel> models = {\n")
file(GLOB models "${MODELS}/*.json")
list(SORT models)
foreach(path IN LISTS models)
  file(READ "${path}" text)
  string(JSON name GET "${text}" name)
  string(JSON description GET "${text}" description)
  string(APPEND code "      {R\"plimsoll(${name})plimsoll\", R\"plimsoll(${description})plimsoll\",\n"
         "       R\"plimsoll(${text})plimsoll\"},\n")
endforeach()
string(APPEND code "  };\n  return models;\n}\n\n")

string(APPEND code "const std::vector<Schema>& embedded_schemas() {\n")
string(APPEND code "  static const std::vector<Schema> schemas = {\n")
file(GLOB schemas "${SCHEMAS}/*.schema.json")
list(SORT schemas)
foreach(path IN LISTS schemas)
  file(READ "${path}" text)
  get_filename_component(name "${path}" NAME)
  string(REPLACE ".schema.json" "" name "${name}")
  string(APPEND code "      {R\"plimsoll(${name})plimsoll\", R\"plimsoll(${text})plimsoll\"},\n")
endforeach()
string(APPEND code "  };\n  return schemas;\n}\n\n}  // namespace plimsoll::io\n")

file(WRITE "${OUTPUT}" "${code}")
