# One target a room, all with the same flags. Floating point is part of the contract: no contraction, never fast math.
add_library(plimsoll_flags INTERFACE)
target_compile_features(plimsoll_flags INTERFACE cxx_std_20)
target_compile_options(plimsoll_flags INTERFACE -ffp-contract=off)
# What is inside: rooms, programs and tests of this repository see the headers beside the sources.
target_include_directories(plimsoll_flags INTERFACE "${PROJECT_SOURCE_DIR}/src")
target_compile_options(
  plimsoll_flags INTERFACE $<BUILD_INTERFACE:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees an overlap in `"literal" + std::string` that is not there (GCC bug 105651), and where headers are
  # precompiled accesses beyond a string's own buffer.
  target_compile_options(plimsoll_flags INTERFACE -Wno-restrict -Wno-array-bounds -Wno-stringop-overread)
endif()
if(PLIMSOLL_SANITIZE)
  # src/core/check.h: what is checked in debug builds alone is checked here too, whatever NDEBUG says.
  target_compile_definitions(plimsoll_flags INTERFACE PLIMSOLL_DEBUG_CHECKS)
  target_compile_options(
    plimsoll_flags INTERFACE -fsanitize=${PLIMSOLL_SANITIZE} -fno-omit-frame-pointer
                             -fno-sanitize-recover=all)
  target_link_options(plimsoll_flags INTERFACE -fsanitize=${PLIMSOLL_SANITIZE})
endif()

# What nearly every source of a room includes is parsed once. The sources include it all the same: each is complete.
add_library(plimsoll_headers STATIC "${CMAKE_CURRENT_LIST_DIR}/headers.cc")
target_link_libraries(plimsoll_headers PRIVATE plimsoll_flags fmt::fmt)
# Only what public headers declare (they say so by a pragma) is visible from outside the shared library.
set(plimsoll_code_properties POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
set_target_properties(plimsoll_headers PROPERTIES ${plimsoll_code_properties})
target_precompile_headers(
  plimsoll_headers PRIVATE <algorithm> <array> <cmath> <functional> <limits> <map> <memory> <optional>
  <string> <tuple> <unordered_map> <utility> <vector> <fmt/format.h> <tl/expected.hpp>)

# plimsoll_unite_sources(<target>): where PLIMSOLL_UNITY_BUILD is on, up to eight sources of one folder are compiled as
# one, and what they include is read once. Names of one folder differ therefore, those in unnamed namespaces, too.
function(plimsoll_unite_sources target)
  if(NOT PLIMSOLL_UNITY_BUILD)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  get_target_property(base ${target} SOURCE_DIR)
  foreach(source ${sources})
    get_filename_component(path "${source}" ABSOLUTE BASE_DIR "${base}")
    get_filename_component(folder "${path}" DIRECTORY)
    string(MAKE_C_IDENTIFIER "${folder}" key)
    math(EXPR count_${key} "${count_${key}} + 1")
    math(EXPR part "(${count_${key}} - 1) / 8")
    file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${folder}")
    string(MAKE_C_IDENTIFIER "${folder}_${part}" group)
    set_source_files_properties("${source}" TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP "${group}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# plimsoll_add_room(<room> SOURCES ... [DEPENDS ...] [PRIVATE_DEPENDS ...])
function(plimsoll_add_room room)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(plimsoll_${room} STATIC ${ARG_SOURCES})
  add_library(plimsoll::${room} ALIAS plimsoll_${room})
  target_include_directories(plimsoll_${room} PUBLIC "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(plimsoll_${room} PUBLIC ${ARG_DEPENDS} PRIVATE plimsoll_flags fmt::fmt ${ARG_PRIVATE_DEPENDS})
  target_compile_features(plimsoll_${room} PUBLIC cxx_std_20)
  target_precompile_headers(plimsoll_${room} REUSE_FROM plimsoll_headers)
  set_target_properties(plimsoll_${room} PROPERTIES ${plimsoll_code_properties})
  set_property(GLOBAL APPEND PROPERTY PLIMSOLL_ROOMS plimsoll_${room})
  # Folders below add their sources first.
  cmake_language(EVAL CODE "cmake_language(DEFER CALL plimsoll_unite_sources plimsoll_${room})")
endfunction()

# plimsoll_add_test(<name> SOURCES ... [DEPENDS ...] [LABELS ...]): one GoogleTest program, its cases registered with
# ctest. The label `long` keeps it out of `make test`.
function(plimsoll_add_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  include(GoogleTest)
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE plimsoll_flags ${ARG_DEPENDS} GTest::gtest GTest::gmock
                                        GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_precompile_headers(${name} REUSE_FROM plimsoll_test_headers)
  target_compile_definitions(${name} PRIVATE PLIMSOLL_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  plimsoll_unite_sources(${name})
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS "${ARG_LABELS}")
endfunction()

# plimsoll_add_bench(<name> SOURCES ... [DEPENDS ...]): one Google Benchmark program with a main of its own, in bin/,
# where `make bench` runs every *_bench.
function(plimsoll_add_bench name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE plimsoll_flags ${ARG_DEPENDS} benchmark::benchmark)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/bench")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
endfunction()
