package rest

import (
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
)

// Route is a row of the table, for tests.
type Route struct {
	Method, Path, What, Body string
	Params                   []string
	Data                     bool
	Listed                   bool // in the table of calls
}

// Routes returns the table.
func Routes() (out []Route) {
	for _, r := range routes() {
		out = append(out, Route{Method: r.method, Path: r.path, What: r.what, Body: r.body, Params: r.params, Data: r.data,
			Listed: access.Find(string(config.DoorAdmin), r.method+" "+r.path) != nil})
	}
	return out
}
