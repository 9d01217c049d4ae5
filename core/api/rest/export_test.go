package rest

// Route is a row of the table, for tests.
type Route struct {
	Method, Path, What, Body string
	Params                   []string
	Data                     bool
}

// Routes returns the table.
func Routes() (out []Route) {
	for _, r := range routes() {
		out = append(out, Route{Method: r.method, Path: r.path, What: r.what, Body: r.body, Params: r.params, Data: r.data})
	}
	return out
}
