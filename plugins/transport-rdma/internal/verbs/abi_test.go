//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

package verbs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The declarations of abi.h agree with the library's own header, where that is installed.
func TestABI(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed")
	}
	if _, err = os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		t.Skip("the headers of libibverbs (libibverbs-dev) are not installed")
	}
	src := abiSource(t)
	if n := strings.Count(src, "_Static_assert"); n < 150 {
		t.Fatalf("only %d comparisons were made of abi.h", n)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "abi.c")
	check(t, os.WriteFile(file, []byte(src), 0o600))
	here, err := os.Getwd()
	check(t, err)
	out, err := exec.Command(gcc, "-std=gnu11", "-fsyntax-only", "-I"+here, file).CombinedOutput()
	if err != nil {
		t.Errorf("abi.h differs from infiniband/verbs.h:\n%s", out)
	}
}

// Where the names in abi.h are not the header's with another prefix.
var (
	abiFields = map[string]string{
		"abi_device.ops": "_ops", "abi_context.mutex": "mutex",
		"abi_send_wr.remote_addr": "wr.rdma.remote_addr", "abi_send_wr.rkey": "wr.rdma.rkey",
		"abi_ah_attr.dgid": "grh.dgid", "abi_ah_attr.flow_label": "grh.flow_label", "abi_ah_attr.sgid_index": "grh.sgid_index",
		"abi_ah_attr.hop_limit": "grh.hop_limit", "abi_ah_attr.traffic_class": "grh.traffic_class",
		// Newer than some headers, and checked by size below.
		"abi_port_attr.active_speed_ex": "", "abi_send_wr.unused": "", "abi_device_attr.unused": "max_ee_init_rd_atom",
	}
	// Their ends are private to the library: only what comes before is declared.
	abiPrefixes = map[string]bool{"abi_cq": true, "abi_qp": true, "abi_port_attr": true}
	abiEnums    = map[string]string{"ABI_TRANSPORT_IWARP": "IBV_TRANSPORT_IWARP"}
)

// abiSource writes a C file that compares everything in abi.h with the header.
func abiSource(t *testing.T) string {
	text, err := os.ReadFile("abi.h")
	check(t, err)
	values, err := os.ReadFile("abi_values.h")
	check(t, err)
	text = append(text, values...)
	var b strings.Builder
	b.WriteString("#include <infiniband/verbs.h>\n#include \"abi.h\"\n#define SAME(a, b) _Static_assert((long)(a) == (long)(b), #a \" is not \" #b)\n")
	same := func(ours, theirs string) {
		fmt.Fprintf(&b, "_Static_assert((long)(%s) == (long)(%s), \"%s\");\n", ours, theirs, ours)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(ABI_\w+) =`).FindAllStringSubmatch(string(text), -1) {
		name := abiEnums[m[1]]
		if name == "" {
			name = "IBV_" + strings.TrimPrefix(m[1], "ABI_")
		}
		if strings.HasPrefix(m[1], "ABI_EVENT_") {
			name = "IBV_" + strings.TrimPrefix(m[1], "ABI_")
		}
		same(m[1], name)
	}
	field := regexp.MustCompile(`(?m)^\t(?:\w+ )+\**(\w+)(?:\[\d+\])?;`)
	for _, m := range regexp.MustCompile(`(?ms)^struct (abi_\w+) \{\n(.*?)^\};`).FindAllStringSubmatch(string(text), -1) {
		ours, theirs := "struct "+m[1], "struct ibv_"+strings.TrimPrefix(m[1], "abi_")
		if !abiPrefixes[m[1]] {
			same("sizeof("+ours+")", "sizeof("+theirs+")")
		}
		for _, f := range field.FindAllStringSubmatch(m[2], -1) {
			name, other := abiFields[m[1]+"."+f[1]]
			if !other {
				name = f[1]
			}
			if name != "" {
				same(fmt.Sprintf("offsetof(%s, %s)", ours, f[1]), fmt.Sprintf("offsetof(%s, %s)", theirs, name))
				same(fmt.Sprintf("sizeof(((%s *)0)->%s)", ours, f[1]), sizeOf(m[1], theirs, f[1], name))
			}
		}
	}
	for _, op := range []string{"poll_cq", "req_notify_cq", "post_send", "post_recv"} {
		same("offsetof(struct abi_context, ops."+op+")", "offsetof(struct ibv_context, ops."+op+")")
	}
	same("sizeof(union abi_gid)", "sizeof(union ibv_gid)")
	same("sizeof(((struct abi_context *)0)->ops)", "sizeof(struct ibv_context_ops)")
	same("offsetof(struct abi_async_event, event_type)", "offsetof(struct ibv_async_event, event_type)")
	same("ABI_BACK_SZ", "offsetof(struct verbs_context, context) - offsetof(struct verbs_context, sz)")
	same("ABI_BACK_QUERY_PORT", "offsetof(struct verbs_context, context) - offsetof(struct verbs_context, query_port)")
	return b.String()
}

// sizeOf is the size of a field of the header; where one of ours stands for several, up to the
// next.
func sizeOf(name, theirs, ours, field string) string {
	if name == "abi_device_attr" && ours == "unused" {
		return fmt.Sprintf("offsetof(%s, max_pkeys) - offsetof(%s, %s)", theirs, theirs, field)
	}
	return fmt.Sprintf("sizeof(((%s *)0)->%s)", theirs, field)
}
