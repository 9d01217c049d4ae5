package store

import "github.com/prometheus/client_golang/prometheus"

// metrics registers what a node shows of itself.
func (n *Node) metrics(r *registrar) {
	r.add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mooncake_node_segment_bytes", Help: "Memory contributed to the pool."},
		func() float64 { return float64(n.Size()) }))
	r.add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mooncake_node_mounted", Help: "1 while the master knows the segments of this node."},
		func() float64 {
			if n.Mounted() {
				return 1
			}
			return 0
		}))
}
