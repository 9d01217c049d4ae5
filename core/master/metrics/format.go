package metrics

import "fmt"

// Bytes formats a size as the summary shows it: "0 B", "3.19 MB".
func Bytes(n uint64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	units := [...]string{"KB", "MB", "GB", "TB", "PB", "EB"}
	x, i := float64(n)/(1<<10), 0
	for x >= 1<<10 && i < len(units)-1 {
		x /= 1 << 10
		i++
	}
	return fmt.Sprintf("%.2f %s", x, units[i])
}

// usage formats used and capacity, with the share where there is a capacity.
func usage(used, capacity uint64) string {
	s := Bytes(used) + " / " + Bytes(capacity)
	if capacity > 0 {
		s += fmt.Sprintf(" (%.1f%%)", 100*float64(used)/float64(capacity))
	}
	return s
}
