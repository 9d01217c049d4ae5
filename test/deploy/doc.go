// Package deploy tests the files in the folder deploy. Every command line in them starts the real
// program on loopback, with the environment of its container, until the probes report that it is
// ready. The static program also runs in a root folder that holds nothing else.
package deploy
