# `cmake --install`: the library, its headers, the program, and what other projects find it by:
#   find_package(pergola REQUIRED)  target_link_libraries(app PRIVATE pergola::pergola)
#   cc app.c $(pkg-config --cflags --libs pergola)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/pergola)

install(TARGETS pergola EXPORT pergolaTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS pergola_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET pergola_cpu_jit)
  install(TARGETS pergola_cpu_jit LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/pergola DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT pergolaTargets NAMESPACE pergola:: DESTINATION ${package_dir})

# For find_package() in a build folder, which looks like an install to CMake.
export(EXPORT pergolaTargets NAMESPACE pergola:: FILE ${PROJECT_BINARY_DIR}/pergolaTargets.cmake)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/pergolaConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/pergolaConfig.cmake INSTALL_DESTINATION ${package_dir})
# 0.x promises nothing across minor versions.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/pergolaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/pergolaConfig.cmake ${PROJECT_BINARY_DIR}/pergolaConfigVersion.cmake
        DESTINATION ${package_dir})

# From the folder of pergola.pc up to the prefix, so that an installed tree can be moved.
file(RELATIVE_PATH PERGOLA_PC_PREFIX /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(${CMAKE_CURRENT_LIST_DIR}/pergola.pc.in ${PROJECT_BINARY_DIR}/pergola.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/pergola.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
