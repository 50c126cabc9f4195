/* version.h - the version of hilo. */
#ifndef HILO_VERSION_H
#define HILO_VERSION_H

#define HILO_VERSION "0.1.0"

#endif
