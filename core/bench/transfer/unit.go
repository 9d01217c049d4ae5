package transfer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Unit is what a speed is reported in.
type Unit struct {
	// Name is one of UnitNames.
	Name string
	// Bytes is the size of the unit, which is an eighth of a bit count for Gb and the like.
	Bytes float64
}

func units() []Unit {
	return []Unit{
		{"GB", 1e9}, {"GiB", 1 << 30}, {"Gb", 1e9 / 8},
		{"MB", 1e6}, {"MiB", 1 << 20}, {"Mb", 1e6 / 8},
		{"KB", 1e3}, {"KiB", 1 << 10}, {"Kb", 1e3 / 8},
	}
}

// UnitNames lists the units.
func UnitNames() []string {
	var names []string
	for _, u := range units() {
		names = append(names, u.Name)
	}
	return names
}

// ParseUnit finds a unit by its name. InvalidParams.
func ParseUnit(name string) (Unit, error) {
	all := units()
	if i := slices.IndexFunc(all, func(u Unit) bool { return u.Name == name }); i >= 0 {
		return all[i], nil
	}
	return Unit{}, errs.New(errs.InvalidParams, "bench transfer", "the unit %q is not one of %s", name, strings.Join(UnitNames(), ", "))
}

// MaxPrecision is the largest number of decimals of a speed.
const MaxPrecision = 20

// Line is the result of a run as scripts know it. duration is that of the whole run.
func Line(s Sample, u Unit, precision int) string {
	speed := 0.0
	if s.Elapsed > 0 {
		speed = float64(s.Bytes) / s.Elapsed.Seconds() / u.Bytes
	}
	return fmt.Sprintf("Test completed: duration %.2f, batch count %d, throughput %.*f %s/s", s.Elapsed.Round(10*time.Millisecond).Seconds(), s.Batches, precision, speed, u.Name)
}
