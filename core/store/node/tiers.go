package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	disk "github.com/mooncake-go/mooncake/core/tier"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// Tiers are the storage tiers of a node.
type Tiers struct {
	// Each is one tier; a failure of one leaves the others alone.
	Each []*Tier
	// Endpoint is where this process takes calls of Node.Stage, host:port.
	Endpoint string
	// Staging is the memory through which copies are read and written, in bytes.
	Staging uint64
	// StagingTTL is how long what Stage has read stays. Default 5 s.
	StagingTTL time.Duration
	// High and Low are used shares of a tier: above High the node evicts down to Low. Defaults 0.9 and 0.8.
	High, Low float64
	// Keep says that full tiers take nothing more, where they evict otherwise.
	Keep bool
	// WriteBudget is how many bytes each tier gets in a day, 0 for no bound. See tier.Budget of core/tier.
	WriteBudget uint64
}

// DefaultTiers returns the defaults, without tiers.
func DefaultTiers() Tiers {
	return Tiers{Staging: 1280 << 20, StagingTTL: 5 * time.Second, High: 0.9, Low: 0.8}
}

func (t *Tiers) validate() error {
	bad := func(name string, got any, want string) error {
		return errs.New(errs.InvalidParams, "store node: storage tiers", "%s is %v, must be %s", name, got, want)
	}
	switch {
	case !t.enabled():
		return nil
	case len(t.Each) > maxTiers:
		return bad("their number", len(t.Each), "at most 256")
	case t.Endpoint == "":
		return bad("the endpoint", `""`, "host:port")
	case t.Staging < 64<<10:
		return bad("the staging memory", t.Staging, "at least 64 KiB")
	case t.StagingTTL <= 0:
		return bad("how long what was staged stays", t.StagingTTL, "above 0")
	case t.Low <= 0 || t.Low >= t.High || t.High > 1:
		return bad("the watermarks", fmt.Sprintf("%v and %v", t.High, t.Low), "the low one above 0, the high one above it, and at most 1")
	}
	return nil
}

// maxTiers bounds the tiers of a node.
const maxTiers = 256

// enabled reports whether there are tiers.
func (t *Tiers) enabled() bool { return t != nil && len(t.Each) > 0 }

// Tier is one opened storage tier.
type Tier struct {
	// Tier was started, and is stopped after the node.
	Tier tier.Tier
	// Name says which one it is, such as a path.
	Name string
	// Policy was started. It ranks the copies on the tier.
	Policy evict.Policy

	hung   atomic.Bool // the storage does not answer
	making sync.Mutex  // held while it is evicted
	file   string      // of the ledger
	mem    *ledgerMemory
	ledger *ledger.Log
	disk   *disk.Disk
	rank   *disk.Ranking
}

// OpenTier opens the ledger of a tier, in a folder that belongs to the tier. A ledger that cannot be read is made anew. The
// records of another cluster are wiped.
func OpenTier(ctx context.Context, t *Tier, folder, cluster string, log *slog.Logger) error {
	v := t.Tier.Volume()
	id := ledger.Identity{Segment: disk.Segment(v), Size: v.Capacity, Cluster: cluster}
	t.file = filepath.Join(folder, "ledger-"+id.Segment.String())
	err := t.openLedger(id)
	if err == nil {
		return nil
	}
	if other := new(otherCluster); errors.As(err, &other) {
		log.Warn("the storage tier has objects of another cluster, which are wiped", "tier", t.Name, "cluster", other.name)
		if err := t.Tier.Wipe(ctx); err != nil {
			return errs.Wrap(errs.FileWriteFail, "storage tier "+t.Name+": wipe", err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the ledger of a storage tier cannot be used, and is made again from its records", "tier", t.Name, "error", err)
	}
	f, err := os.OpenFile(t.file, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		t.mem, err = newLedgerMemory(f)
	}
	if err == nil {
		t.ledger, err = ledger.Create(t.mem, id)
	}
	return errs.Wrap(errs.FileWriteFail, "storage tier "+t.Name+": ledger", err)
}

// otherCluster says that a ledger is that of another cluster.
type otherCluster struct{ name string }

func (o *otherCluster) Error() string { return "it belongs to cluster " + o.name }

// openLedger opens the ledger of an earlier process.
func (t *Tier) openLedger(id ledger.Identity) error {
	f, err := os.OpenFile(t.file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if t.mem, err = mapLedger(f); err != nil {
		return err
	}
	if t.ledger, err = ledger.Open(t.mem); err != nil {
		return err
	}
	switch have := t.ledger.Identity(); {
	case have.Cluster != id.Cluster:
		return &otherCluster{have.Cluster}
	case have != id:
		return fmt.Errorf("it is that of segment %s with %s, and the volume is %s with %s", have.Segment, memory.Human(have.Size), id.Segment, memory.Human(id.Size))
	}
	return nil
}

// sync returns when what the tier and its ledger have survives a crash of the machine.
func (t *Tier) sync(ctx context.Context) error {
	return errors.Join(t.disk.Sync(ctx), t.mem.file.Sync())
}

// Client returns as which client the last process used the tier, zero for none.
func (t *Tier) Client() model.ClientID { return t.ledger.Place().Client }
