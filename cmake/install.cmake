# The program, the shared library with the public headers, and the package files for find_package(thalweg).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(TARGET thalweg_api)
  file(WRITE "${CMAKE_BINARY_DIR}/thalweg_anchor.cc" "")
  add_library(thalweg SHARED "${CMAKE_BINARY_DIR}/thalweg_anchor.cc")
  add_library(thalweg::thalweg ALIAS thalweg)
  target_link_libraries(thalweg PRIVATE -Wl,--whole-archive thalweg_api -Wl,--no-whole-archive PUBLIC thalweg_arrow)
  target_include_directories(thalweg PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(thalweg PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
endif()

set(runtime_path "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN;${THALWEG_ARROW_LIBRARY_DIR}")
if(TARGET thalweg_program)
  set_target_properties(thalweg_program PROPERTIES INSTALL_RPATH "${runtime_path}")
  install(TARGETS thalweg_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET thalweg)
  set_target_properties(thalweg PROPERTIES INSTALL_RPATH "${runtime_path}")
  install(TARGETS thalweg LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY include/thalweg DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  configure_package_config_file(cmake/thalwegConfig.cmake.in "${CMAKE_BINARY_DIR}/thalwegConfig.cmake"
                                INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/thalweg
                                PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
  write_basic_package_version_file("${CMAKE_BINARY_DIR}/thalwegConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${CMAKE_BINARY_DIR}/thalwegConfig.cmake" "${CMAKE_BINARY_DIR}/thalwegConfigVersion.cmake"
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/thalweg)
endif()
