// Package rest is the admin port of the master: plain HTTP in the shapes that existing
// scripts and dashboards read, by default on port 9003, and JSON below /api/v1 for the
// rest. routes is the table of everything, docs/admin-http.md its documentation; Client
// is the other side.
//
// A path that is not there answers 404 with "404 Not Found" as upstream does, below /api/
// in JSON; a method that a path does not have answers 405. Keys that are not UTF-8 appear
// in JSON with U+FFFD for what is not.
package rest
