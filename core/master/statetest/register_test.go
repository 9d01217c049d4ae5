package statetest

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// The checker finds what is wrong: a read of a value that no client wrote, and a key that is
// readable before its put ended.
func TestTheRegisterFindsFaults(t *testing.T) {
	at := func(i int64, c int, kind string, sum uint64, out Result) porcupine.Operation {
		return porcupine.Operation{ClientId: c, Input: Op{Kind: kind, Key: "k", Client: c, Sum: sum}, Call: 2 * i, Output: out, Return: 2*i + 1}
	}
	begun, ended := at(0, 0, "begin", 0, Result{}), at(1, 0, "end", 7, Result{})
	for name, c := range map[string]struct {
		ok      bool
		history []porcupine.Operation
	}{
		"good":      {true, []porcupine.Operation{begun, ended, at(2, 1, "read", 0, Result{Sum: 7})}},
		"evicted":   {true, []porcupine.Operation{begun, ended, at(2, 1, "exist", 0, Result{}), at(3, 1, "begin", 0, Result{})}},
		"torn":      {false, []porcupine.Operation{begun, ended, at(2, 1, "read", 0, Result{Sum: 8})}},
		"too early": {false, []porcupine.Operation{begun, at(1, 1, "exist", 0, Result{There: true})}},
		"revived":   {false, []porcupine.Operation{begun, ended, at(2, 1, "remove", 0, Result{}), at(3, 1, "exist", 0, Result{There: true})}},
		"two":       {false, []porcupine.Operation{begun, at(1, 1, "begin", 0, Result{})}},
	} {
		require.Equal(t, c.ok, porcupine.CheckOperations(register(), c.history), name)
	}
}
