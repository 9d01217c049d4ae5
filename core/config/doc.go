// Package config turns defaults, a file, the environment and the command line into one
// checked Config, and remembers where every value came from.
//
// Layers, low to high: built-in defaults, defaults of plugins, the file (YAML or JSON),
// environment variables, flags that were really set. A flag given its default value still
// wins over the file. Within the environment our own names win over the reference
// implementation's; in one file or on one command line two names for the same setting
// must agree.
//
// Everything unknown is refused with its place and the nearest known name, except in the
// environment, which is shared: there it is a warning. The reference implementation's
// flags, file keys and variables are read as well and map onto the same keys; one that
// has no effect yet is a Warning, and one that asks for durability, availability or
// isolation that cannot be given is an error.
//
// The package reads nothing on its own but the configuration file: arguments and
// environment are passed in. All functions are safe for concurrent use.
package config
