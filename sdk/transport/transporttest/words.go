package transporttest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// opText names an operation: "operation 17 (read 4096 at 0)".
func opText(o transport.Op) string {
	return fmt.Sprintf("operation %d (%s %d at %d)", o.ID, strings.ToLower(o.Kind.String()), len(o.Local), o.Offset)
}

// opsText names several operations, in short.
func opsText(ops []transport.Op) string {
	switch len(ops) {
	case 0:
		return "no operation"
	case 1:
		return opText(ops[0])
	}
	return fmt.Sprintf("%s and %d more", opText(ops[0]), len(ops)-1)
}

// missingText says which of n operations have not completed: "1 of 300 completions are missing: operation 17 (read 4096
// at 0)".
func missingText(open map[uint64]transport.Op, n int) string {
	var names []string
	for _, id := range slices.Sorted(maps.Keys(open)) {
		if len(names) == 3 {
			names = append(names, "...")
			break
		}
		names = append(names, opText(open[id]))
	}
	return fmt.Sprintf("%d of %d completions are missing: %s", len(open), n, strings.Join(names, ", "))
}

// endText says how an operation ended: "Failed, class transient-path: ...".
func endText(c transport.Completion) string {
	if c.Err == nil {
		return c.Status.String() + " without an error"
	}
	return fmt.Sprintf("%s, class %s: %v", c.Status, c.Class(), c.Err)
}

// classesText lists classes.
func classesText(classes []errs.Class) string {
	var names []string
	for _, c := range classes {
		names = append(names, c.String())
	}
	return strings.Join(names, " or ")
}
