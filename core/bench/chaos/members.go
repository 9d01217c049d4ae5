package chaos

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// memberProgram is what a master starts as its etcd member, from the folder of its own program.
const memberProgram = "mooncake_etcd"

// members are the etcd members of masters that run them.
type members []member

// member is one, with its ports.
type member struct {
	name, folder string
	client, peer int
}

// newMembers starts nothing. An *unable says that this machine has no program for them.
func newMembers(opts Options, folder string, n int) (members, error) {
	program := filepath.Join(filepath.Dir(opts.Program), memberProgram)
	if _, err := exec.LookPath(program); err != nil {
		return nil, &unable{fmt.Errorf("masters with etcd members need %s, which make build makes", program)}
	}
	ports, err := cluster.FreePorts(2 * n)
	if err != nil {
		return nil, err
	}
	all := make(members, n)
	for i := range all {
		name := "m" + strconv.Itoa(i+1)
		all[i] = member{name, filepath.Join(folder, name), ports[2*i], ports[2*i+1]}
	}
	return all, nil
}

// address is where clients find the leader.
func (all members) address() string {
	var at []string
	for _, m := range all {
		at = append(at, "127.0.0.1:"+strconv.Itoa(m.client))
	}
	return "etcd://" + strings.Join(at, ",")
}

// args are the flags of a master.
func (all members) args(i int) []string {
	var list []string
	for _, m := range all {
		list = append(list, fmt.Sprintf("%s=127.0.0.1:%d:%d", m.name, m.client, m.peer))
	}
	return []string{"--enable_ha", "--ha_backend_type", "embedded", "--ha_members", strings.Join(list, ","), "--ha_member", all[i].name, "--ha_data_dir", all[i].folder}
}
