# `cmake --install` puts one shared library of all rooms, the public headers and the package that find_package(plimsoll)
# reads into a prefix. Within this repository programs link the rooms that they need.
include(CMakePackageConfigHelpers)

get_property(plimsoll_rooms GLOBAL PROPERTY PLIMSOLL_ROOMS)
add_library(plimsoll_library SHARED "${CMAKE_CURRENT_LIST_DIR}/headers.cc")
add_library(plimsoll::plimsoll ALIAS plimsoll_library)
target_include_directories(
  plimsoll_library PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                          $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/src/core>
                          $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(plimsoll_library PUBLIC cxx_std_20)
target_link_libraries(plimsoll_library PUBLIC tl::expected PRIVATE plimsoll_flags)
foreach(room ${plimsoll_rooms})
  target_link_libraries(plimsoll_library
                        PRIVATE -Wl,--whole-archive,$<TARGET_FILE:${room}>,--no-whole-archive ${room})
endforeach()
# Before 1.0 a minor version may change the interface (SameMinorVersion below).
set_target_properties(
  plimsoll_library
  PROPERTIES OUTPUT_NAME plimsoll
             EXPORT_NAME plimsoll
             VERSION ${PROJECT_VERSION}
             SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

set(plimsoll_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll")
install(TARGETS plimsoll_library EXPORT plimsollTargets)

# A header for each room and one for all: what a room's header lists is inside.
set(merged_dir "${PROJECT_BINARY_DIR}/include/plimsoll")
set(public_headers "${PROJECT_SOURCE_DIR}/include/plimsoll/plimsoll.h")
foreach(room balance check checkpoint core embedding experts io math partition study topology)
  file(GLOB parts CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/plimsoll/${room}/*.h")
  set(header "${merged_dir}/${room}.h")
  add_custom_command(
    OUTPUT "${header}"
    COMMAND "${CMAKE_COMMAND}" -D "ROOM=${room}" -D "SOURCES=${PROJECT_SOURCE_DIR}/include" -D
            "GENERATED=${PROJECT_BINARY_DIR}/src/core" -D "OUTPUT=${header}" -P
            "${CMAKE_CURRENT_LIST_DIR}/MergeHeaders.cmake"
    DEPENDS ${parts} "${PROJECT_SOURCE_DIR}/include/plimsoll/${room}.h" "${CMAKE_CURRENT_LIST_DIR}/MergeHeaders.cmake"
    VERBATIM)
  list(APPEND public_headers "${header}")
endforeach()
add_custom_target(plimsoll_public_headers ALL DEPENDS ${public_headers})
install(FILES ${public_headers} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/plimsoll")
install(EXPORT plimsollTargets NAMESPACE plimsoll:: DESTINATION "${plimsoll_package_dir}")

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/plimsollConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/plimsollConfig.cmake" INSTALL_DESTINATION "${plimsoll_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/plimsollConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/plimsollConfig.cmake"
              "${PROJECT_BINARY_DIR}/plimsollConfigVersion.cmake"
        DESTINATION "${plimsoll_package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/THIRD_PARTY_NOTICES.md"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")
