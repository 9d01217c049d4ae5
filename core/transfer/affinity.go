package transfer

import (
	"strings"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// ParseAffinity reads "local=peer,peer;local=peer", upstream's MC_NIC_PEER_AFFINITY, for
// Config.PeerAffinity. Blanks do not count; a device that comes twice adds to the first.
// InvalidParams for anything else; nothing gives nil.
func ParseAffinity(text string) (map[string][]string, error) {
	var out map[string][]string
	for entry := range strings.SplitSeq(text, ";") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		local, peers, ok := strings.Cut(entry, "=")
		local = strings.TrimSpace(local)
		if !ok || local == "" {
			return nil, badAffinity(entry)
		}
		for peer := range strings.SplitSeq(peers, ",") {
			if peer = strings.TrimSpace(peer); peer == "" {
				return nil, badAffinity(entry)
			}
			if out == nil {
				out = map[string][]string{}
			}
			out[local] = append(out[local], peer)
		}
	}
	return out, nil
}

func badAffinity(entry string) error {
	return errs.WithHint(errs.New(errs.InvalidParams, "transfer: affinity of devices", "%.100q names no device here and there", entry),
		"the form is mlx5_0=mlx5_0,mlx5_1;mlx5_1=mlx5_1")
}
