package rest_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

var update = flag.Bool("update", false, "rewrite docs/admin-http.md")

const docFile = "../../../docs/admin-http.md"

// example is a request of the documentation; its answer comes from the fake.
type example struct{ query, body string }

func examples() map[string]example {
	return map[string]example{
		"GET /query_key":                 {query: "?key=page-1"},
		"GET /batch_query_keys":          {query: "?keys=page-1,page-3"},
		"GET /query_segment":             {query: "?segment=10.0.0.7:12300"},
		"GET /api/v1/why":                {query: "?key=page-1"},
		"GET /api/v1/keys":               {query: "?regex=^page-&limit=1"},
		"POST /api/v1/remove":            {query: "?key=page-1&force=true"},
		"POST /api/v1/remove_all":        {query: "?tenant_id=team-a"},
		"GET /api/v1/segments/status":    {query: "?segment=10.0.0.7:12300"},
		"POST /api/v1/drain_jobs":        {body: `{"segments":["10.0.0.7:12300"],"target_segments":["10.0.0.8:12300"],"max_concurrency":8}`},
		"GET /api/v1/drain_jobs/query":   {query: "?job_id=7-8"},
		"POST /api/v1/drain_jobs/cancel": {query: "?job_id=7-8"},
		"POST /api/v1/tasks":             {body: `{"kind":"move","key":"page-1","source":"10.0.0.7:12300","targets":["10.0.0.8:12300"]}`},
		"GET /api/v1/tasks":              {query: "?task_id=4-4"},
		"PUT /api/v1/tenant_quotas":      {query: "?tenant_id=team-b", body: `{"requested_quota_bytes":1073741824}`},
		"DELETE /api/v1/tenant_quotas":   {query: "?tenant_id=team-a"},
	}
}

const intro = `# Admin HTTP of the master

This page lists the routes of the admin port (` + "`metrics_port`" + `, 9003), each with an example. It is
generated from the table of routes and from their answers: ` + "`go test ./core/api/rest -update`" + `. For
the differences from upstream, see
[compatibility/services.md](compatibility/services.md#admin-http-of-the-master-9003).

- The port has no authentication. Keep it inside the pool's network.
- Parameters are percent-encoded. A plus sign is a plus sign. Routes below ` + "`/api/`" + ` refuse unknown
  parameters.
- Errors have the form
  ` + "`{\"success\":false,\"error_code\":-704,\"error_message\":\"OBJECT_NOT_FOUND\"}`" + `. Below ` + "`/api/`" + `, a
  readable ` + "`detail`" + ` is added.
- Times are RFC 3339 in UTC, durations are in milliseconds, sizes in bytes.
- HEAD answers as GET does, without the body.

| status | meaning |
|---|---|
| 400 | the request is wrong |
| 403 | the identity of the certificate may not ask for this, see [roles](security.md#roles) |
| 404 | the object, or whatever else the request names, does not exist |
| 405 | wrong method; the answer has ` + "`Allow`" + ` |
| 409 | not possible at the moment |
| 413 | the body is larger than 1 MiB |
| 429 | too many tasks |
| 500 | any other error |
| 501 | not supported |
| 503 | the master does not serve |
`

// TestEveryRouteIsDocumented compares the documentation, which has an example of every
// route with its exact answer.
func TestEveryRouteIsDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString(intro)
	all := examples()
	for _, r := range rest.Routes() {
		name := r.Method + " " + r.Path
		x := all[name]
		delete(all, name)
		assert.Equal(t, len(r.Params) > 0 && name != "GET /api/v1/tenant_quotas", x.query != "", "%s has an example of its parameters", name)
		assert.Equal(t, r.Body != "", x.body != "", "%s has an example of its body", name)
		w := askBody(full(), r.Method, r.Path+strings.ReplaceAll(x.query, "^", "%5E"), x.body)
		assert.Equal(t, 200, w.Code, "%s: %s", name, w.Body)
		fmt.Fprintf(&b, "\n## `%s`\n\n%s\n", name, r.What)
		if len(r.Params) > 0 {
			fmt.Fprintf(&b, "\nParameters: `%s`.\n", strings.Join(r.Params, "`, `"))
		}
		if r.Body != "" {
			fmt.Fprintf(&b, "\nBody, JSON: %s.\n", r.Body)
		}
		fmt.Fprintf(&b, "\n```\n%s%s\n", name, x.query)
		if x.body != "" {
			fmt.Fprintf(&b, "%s\n", x.body)
		}
		fmt.Fprintf(&b, "\n200 %s\n%s\n```\n", w.Header().Get("Content-Type"), strings.TrimSuffix(w.Body.String(), "\n"))
	}
	assert.Empty(t, all, "examples of routes that are not there")
	if *update {
		require.NoError(t, os.WriteFile(docFile, []byte(b.String()), 0o600))
	}
	have, err := os.ReadFile(docFile)
	require.NoError(t, err)
	assert.Equal(t, b.String(), string(have), "run: go test ./core/api/rest -update")
}

// TestCompatibilityTables: docs/compatibility has a row for every route and for every
// error code, each once.
func TestCompatibilityTables(t *testing.T) {
	section := func(page, name string) string {
		doc, err := os.ReadFile("../../../docs/compatibility/" + page)
		require.NoError(t, err)
		_, s, ok := strings.Cut(string(doc), "\n## "+name+"\n")
		require.True(t, ok, name)
		s, _, _ = strings.Cut(s, "\n## ")
		return s
	}
	routes := section("services.md", "Admin HTTP of the master (9003)")
	for _, r := range rest.Routes() {
		found := regexp.MustCompile("`"+regexp.QuoteMeta(r.Method+" "+r.Path)+"(\\?[^`]*)?`").FindAllString(routes, -1)
		assert.Len(t, found, 1, "%s %s", r.Method, r.Path)
	}
	listed := map[string]int{}
	for line := range strings.Lines(section("errors-and-metrics.md", "Error codes")) {
		cells := strings.Split(line, "|")
		if len(cells) == 4 {
			for _, n := range strings.Split(cells[1], ",") {
				listed[strings.TrimSpace(n)]++
			}
		}
	}
	for _, c := range errs.Codes() {
		assert.Equal(t, 1, listed[strconv.Itoa(int(c))], "%d %s", c, c)
	}
}
