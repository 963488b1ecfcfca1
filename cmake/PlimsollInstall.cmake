# `cmake --install` puts the libraries, the public headers and the package that find_package(plimsoll) reads into a
# prefix. plimsoll::plimsoll stands for all rooms.
include(CMakePackageConfigHelpers)

get_property(plimsoll_rooms GLOBAL PROPERTY PLIMSOLL_ROOMS)
add_library(plimsoll_all_rooms INTERFACE)
add_library(plimsoll::plimsoll ALIAS plimsoll_all_rooms)
target_link_libraries(plimsoll_all_rooms INTERFACE ${plimsoll_rooms})
set_target_properties(plimsoll_all_rooms PROPERTIES EXPORT_NAME plimsoll)

set(plimsoll_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll")
install(TARGETS ${plimsoll_rooms} plimsoll_all_rooms EXPORT plimsollTargets)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/plimsoll"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING
        PATTERN "*.h")
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
