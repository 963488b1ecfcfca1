# cmake -DMODELS=DIR -DMODULE_STATS=DIR -DGRAPHS=DIR -DMACHINES=DIR -DSCHEMAS=DIR -DPAGE=DIR -DVEGA=FILE -DOUTPUT=FILE.cc -P embed_texts.cmake
#
# Writes the shipped models, module statistics, graphs, schemas, and what pages are made with, as raw string literals, sorted by name, into one source file
# (embedded_texts.h declares what it defines).
cmake_minimum_required(VERSION 3.22)

set(code "// Generated from data/ by embed_texts.cmake.\n#include \"io/documents/embedded_texts.h\"\n\n")
string(APPEND code "namespace plimsoll::io {\n\n")

# Documents that carry a name and a description.
function(append_documents function folder)
  set(description_key description)
  if(ARGC GREATER 2)
    set(description_key "${ARGV2}")
  endif()
  string(APPEND code "const std::vector<ShippedDocument>& ${function}() {\n")
  string(APPEND code "  static const std::vector<ShippedDocument> documents = {\n")
  file(GLOB paths "${folder}/*.json")
  list(SORT paths)
  foreach(path IN LISTS paths)
    file(READ "${path}" text)
    string(JSON name GET "${text}" name)
    string(JSON description GET "${text}" "${description_key}")
    string(APPEND code "      {R\"plimsoll(${name})plimsoll\", R\"plimsoll(${description})plimsoll\",\n"
           "       R\"plimsoll(${text})plimsoll\"},\n")
  endforeach()
  string(APPEND code "  };\n  return documents;\n}\n\n")
  set(code "${code}" PARENT_SCOPE)
endfunction()
append_documents(embedded_machines "${MACHINES}" notes)
append_documents(embedded_models "${MODELS}")
append_documents(embedded_module_stats "${MODULE_STATS}")
append_documents(embedded_graphs "${GRAPHS}")

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
string(APPEND code "  };\n  return schemas;\n}\n\n")

foreach(part "style:${PAGE}/page.css" "script:${PAGE}/page.js" "charts:${PAGE}/charts.json" "vega:${VEGA}")
  string(REGEX MATCH "^([^:]*):(.*)$" match "${part}")
  set(name "${CMAKE_MATCH_1}")
  file(READ "${CMAKE_MATCH_2}" text)
  string(APPEND code "std::string_view embedded_page_${name}() { return R\"plimsoll(${text})plimsoll\"; }\n\n")
endforeach()
string(APPEND code "}  // namespace plimsoll::io\n")

file(WRITE "${OUTPUT}" "${code}")
