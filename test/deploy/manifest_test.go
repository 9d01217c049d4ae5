package deploy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// container is the description of one container.
type container struct {
	Name, Image    string
	Command, Args  []string
	Env            []variable
	EnvFrom        []source `yaml:"envFrom"`
	Ports          []port
	StartupProbe   *probe `yaml:"startupProbe"`
	ReadinessProbe *probe `yaml:"readinessProbe"`
	LivenessProbe  *probe `yaml:"livenessProbe"`
	Resources      struct{ Limits map[string]string }
}

type source struct {
	ConfigMapRef struct{ Name string } `yaml:"configMapRef"`
}

type variable struct {
	Name, Value string
	ValueFrom   *struct {
		FieldRef struct {
			FieldPath string `yaml:"fieldPath"`
		} `yaml:"fieldRef"`
	} `yaml:"valueFrom"`
}

type port struct {
	Name          string
	ContainerPort int `yaml:"containerPort"`
	Port          int
	TargetPort    string `yaml:"targetPort"`
}

// probe describes how a container is asked. A port is a number or a name.
type probe struct {
	TCPSocket *struct{ Port string }       `yaml:"tcpSocket"`
	HTTPGet   *struct{ Path, Port string } `yaml:"httpGet"`
}

type pod struct {
	Spec struct {
		EnableServiceLinks *bool       `yaml:"enableServiceLinks"`
		InitContainers     []container `yaml:"initContainers"`
		Containers         []container
	}
}

// manifest has the fields that the tests read of an object of Kubernetes.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Selector any
		Ports    []port
		Template pod
		Roles    []struct {
			Name         string
			Replicas     int
			Dependencies []string
			Template     pod
		}
	}
}

// objects reads the objects in some files.
func objects(t *testing.T, names ...string) []manifest {
	t.Helper()
	var all []manifest
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(files, name))
		require.NoError(t, err)
		for dec := yaml.NewDecoder(bytes.NewReader(b)); ; {
			var m manifest
			err := dec.Decode(&m)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, name)
			all = append(all, m)
		}
	}
	return all
}

// service is a container of the compose file.
type service struct {
	Command     []string
	Environment map[string]string
	Image       string
	MemLimit    string `yaml:"mem_limit"`
}

func compose(t *testing.T) map[string]service {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(files, "compose.yaml"))
	require.NoError(t, err)
	var file struct{ Services map[string]service }
	require.NoError(t, yaml.Unmarshal(b, &file))
	return file.Services
}

// imageNames are the names that the image gives to its program.
func imageNames() ([]string, error) {
	b, err := os.ReadFile(filepath.Join(files, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	_, rest, found := strings.Cut(string(b), "for name in ")
	list, _, ended := strings.Cut(rest, ";")
	if !found || !ended {
		return nil, errors.New("deploy/Dockerfile has no line 'for name in ...;' any more")
	}
	return strings.Fields(strings.ReplaceAll(list, "\\", "")), nil
}
