package node

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/ledger"
)

// The name of a cell in ledgers has the number of cells: what lies in a ledger is of no use to a pool that is cut otherwise.

// cellName is the name of a cell as a ledger has it.
func cellName(cluster string, cell, of int) string {
	if of <= 1 {
		return clusterName(cluster, ledger.MaxCluster)
	}
	return fmt.Sprintf("%s/cells/%d-of-%d", clusterName(cluster, mostOfCells), cell, of)
}

// mostOfCells is how long the name of a cluster may be beside that of a cell.
const mostOfCells = ledger.MaxCluster - len("/cells/63-of-64")

// cellOf returns the cell that a ledger names, false if it is not one of this cluster.
func cellOf(name, cluster string) (cell, of int, ok bool) {
	if name == clusterName(cluster, ledger.MaxCluster) {
		return 0, 1, true
	}
	rest, ok := strings.CutPrefix(name, clusterName(cluster, mostOfCells)+"/cells/")
	if !ok {
		return 0, 0, false
	}
	_, err := fmt.Sscanf(rest, "%d-of-%d", &cell, &of)
	return cell, of, err == nil && cell >= 0 && cell < of && of <= cells.Max
}

// clusterName is the name of a cluster as a ledger has it, of at most most bytes.
func clusterName(cluster string, most int) string {
	if len(cluster) <= most {
		return cluster
	}
	sum := sha256.Sum256([]byte(cluster))
	return hex.EncodeToString(sum[:])[:most]
}
