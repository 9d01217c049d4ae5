// Package rest is the admin port of the master: plain HTTP in the shapes that existing
// scripts and dashboards read, by default on port 9003.
//
// A path that is not there and a method that a path does not have both answer 404 with
// "404 Not Found", as upstream does. Keys that are not UTF-8 appear in JSON with U+FFFD
// for what is not.
package rest
