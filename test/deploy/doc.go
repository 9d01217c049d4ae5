// Package deploy tests the files in the folder deploy: every command line in them starts the
// real program with the environment that it gets there, on loopback, until the probes say
// that it is ready; and the static program runs in a root folder that holds nothing else.
package deploy
