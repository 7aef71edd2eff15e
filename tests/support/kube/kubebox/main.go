// kubebox: etcd and the Kubernetes components that tests need, in one binary: what they share is compiled and linked once.
//
// `kubebox kube-apiserver --flags…`, or by a link of the component's name, as busybox does.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// components are built into their commands only when asked for: each registers flags that the others have, too.
// small.go adds those of tests without a node, node.go those of a node.
var components = map[string]func() *cobra.Command{
	"kube-apiserver": apiserver.NewAPIServerCommand,
	"kubectl":        kubectl.NewDefaultKubectlCommand,
}

func main() {
	arguments := os.Args
	if filepath.Base(arguments[0]) == "kubebox" {
		arguments = arguments[1:]
	}
	if len(arguments) == 0 {
		usage()
	}
	name := filepath.Base(arguments[0])
	os.Args = append([]string{name}, arguments[1:]...)
	if name == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	command, known := components[name]
	if !known {
		usage()
	}
	os.Exit(cli.Run(command()))
}

func usage() {
	names := append(slices.Sorted(maps.Keys(components)), "etcd")
	fmt.Fprintf(os.Stderr, "usage: kubebox %s [flags]\n", strings.Join(names, "|"))
	os.Exit(2)
}
