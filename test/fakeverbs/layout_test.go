package fakeverbs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// The types of Go and C that share the file have their fields at the same places, in the same
// order.
func TestLayout(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed")
	}
	var b strings.Builder
	b.WriteString("#include <stddef.h>\n#include \"world.h\"\n")
	n := 0
	for typ, c := range map[reflect.Type]struct{ name, fields string }{
		reflect.TypeFor[GID]():      {"gid", "addr type ifindex"},
		reflect.TypeFor[Device]():   {"device", "max_mr_size memlock max_mr max_qp max_qp_wr max_cq max_cqe max_pd max_inline max_reads vectors link_layer state active_mtu max_mtu lid width speed retry_ms iwarp clean_cq lazy_flush gids pinned mrs qps cqs pds"},
		reflect.TypeFor[rule]():     {"rule", "armed func device skip times error hits unused"},
		reflect.TypeFor[fault]():    {"fault", "armed action device qpn opcode skip times status ms hits offset"},
		reflect.TypeFor[proc]():     {"proc", "pid live unused"},
		reflect.TypeFor[sharedQP](): {"shared_qp", "used qpn generation device pid state dest mtu access pd dgid"},
		reflect.TypeFor[sharedMR](): {"shared_mr", "used key generation device pid pd access unused iova len at"},
		reflect.TypeFor[event]():    {"event", "device type port qpn"},
		reflect.TypeFor[shared]():   {"world", "magic size devices ready kick events_written stall_release next_pd nrules nfaults calls requests bytes events rules faults device procs qps mrs lock"},
	} {
		fields := strings.Fields(c.fields)
		if len(fields) != typ.NumField() {
			t.Fatalf("%s has %d fields, struct %s %d", typ, typ.NumField(), c.name, len(fields))
		}
		fmt.Fprintf(&b, "_Static_assert(sizeof(struct %s) == %d, \"%s\");\n", c.name, typ.Size(), c.name)
		for i, f := range fields {
			fmt.Fprintf(&b, "_Static_assert(offsetof(struct %s, %s) == %d, \"%s.%s\");\n", c.name, f, typ.Field(i).Offset, c.name, f)
			n++
		}
	}
	fmt.Fprintf(&b, "_Static_assert(F_POST_SILENT == %d, \"the names of functions\");\n", len(funcs)-1)
	file := filepath.Join(t.TempDir(), "layout.c")
	if err = os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), gcc, "-std=gnu11", "-fsyntax-only", "-Isrc", file).CombinedOutput()
	if err != nil {
		t.Errorf("%d fields were compared: %s", n, out)
	}
}
