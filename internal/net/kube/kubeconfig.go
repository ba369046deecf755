package kube

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/gorun/gorun/internal/net/untrusted"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
)

// kubeconfig is what gorun reads of kubeconfig files. Of equal names in several, the first counts.
type kubeconfig struct {
	CurrentContext string         `yaml:"current-context"`
	Clusters       []namedCluster `yaml:"clusters"`
	Users          []namedUser    `yaml:"users"`
	Contexts       []namedContext `yaml:"contexts"`
}

type namedCluster struct {
	Name    string `yaml:"name"`
	Cluster struct {
		Server    string `yaml:"server"`
		Authority string `yaml:"certificate-authority"`
		Data      string `yaml:"certificate-authority-data"`
		Insecure  bool   `yaml:"insecure-skip-tls-verify"`
		TLSName   string `yaml:"tls-server-name"`
		Proxy     string `yaml:"proxy-url"`
	} `yaml:"cluster"`
}

type namedUser struct {
	Name string `yaml:"name"`
	User struct {
		Token           string      `yaml:"token"`
		TokenFile       string      `yaml:"tokenFile"`
		Certificate     string      `yaml:"client-certificate"`
		CertificateData string      `yaml:"client-certificate-data"`
		Key             string      `yaml:"client-key"`
		KeyData         string      `yaml:"client-key-data"`
		Exec            *credential `yaml:"exec"`
	} `yaml:"user"`
}

// credential is a program that prints a token, as those of cloud providers do. Their answers are
// bounded as the API server's are.
type credential struct {
	Command    string   `yaml:"command"`
	Args       []string `yaml:"args"`
	APIVersion string   `yaml:"apiVersion"`
	Env        []struct {
		Name  string `yaml:"name"`
		Value string `yaml:"value"`
	} `yaml:"env"`
}

type namedContext struct {
	Name    string `yaml:"name"`
	Context struct {
		Cluster   string `yaml:"cluster"`
		User      string `yaml:"user"`
		Namespace string `yaml:"namespace"`
	} `yaml:"context"`
}

// readConfigs reads kubeconfig files; those that are missing count as empty.
func readConfigs(files []string) (all kubeconfig, err error) {
	for _, file := range files {
		text, err := readTrusted(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return kubeconfig{}, fmt.Errorf("read the kubeconfig: %w", err)
		}
		var one kubeconfig
		if err := yaml.Unmarshal(text, &one); err != nil {
			return kubeconfig{}, usage.Errorf("check it by kubectl config view",
				"read the kubeconfig %s%s: it is no YAML, or has other values than a kubeconfig", file, lineOf(err))
		}
		one.below(filepath.Dir(file))
		all.CurrentContext = cmp.Or(all.CurrentContext, one.CurrentContext)
		all.Clusters = append(all.Clusters, one.Clusters...)
		all.Users = append(all.Users, one.Users...)
		all.Contexts = append(all.Contexts, one.Contexts...)
	}
	return all, nil
}

// lineOf returns the line that an error of the parser of YAML names, as :LINE. The rest may quote a
// token.
func lineOf(err error) string {
	_, rest, found := strings.Cut(err.Error(), "line ")
	line, _, _ := strings.Cut(rest, ":")
	if _, err := strconv.Atoi(line); !found || err != nil {
		return ""
	}
	return ":" + line
}

// below makes relative names of files those below dir.
func (c *kubeconfig) below(dir string) {
	absolute := func(name *string) {
		if *name != "" && !filepath.IsAbs(*name) {
			*name = filepath.Join(dir, *name)
		}
	}
	for i := range c.Clusters {
		absolute(&c.Clusters[i].Cluster.Authority)
	}
	for i := range c.Users {
		user := &c.Users[i].User
		absolute(&user.TokenFile)
		absolute(&user.Certificate)
		absolute(&user.Key)
		if user.Exec != nil && strings.Contains(user.Exec.Command, "/") {
			absolute(&user.Exec.Command)
		}
	}
}

// access returns the API server of the current context.
func (c *kubeconfig) access() (Access, error) {
	const hint = "choose one by kubectl config use-context NAME"
	for _, at := range c.Contexts {
		if at.Name != c.CurrentContext {
			continue
		}
		a, err := c.serverOf(at.Context.Cluster)
		if err != nil {
			return Access{}, err
		}
		a.Namespace = cmp.Or(at.Context.Namespace, "default")
		err = c.admit(&a, at.Context.User)
		return a, err
	}
	if c.CurrentContext == "" {
		return Access{}, usage.Errorf(hint, "the kubeconfig has no current context")
	}
	return Access{}, usage.Errorf(hint, "the kubeconfig has no context %q", c.CurrentContext)
}

func (c *kubeconfig) serverOf(name string) (Access, error) {
	for _, named := range c.Clusters {
		cluster := named.Cluster
		if named.Name != name {
			continue
		}
		if !strings.HasPrefix(cluster.Server, "https://") || cluster.Insecure {
			return Access{}, usage.Errorf("give the cluster https, and its certificate authority in "+
				"certificate-authority or certificate-authority-data",
				"the kubeconfig's cluster %q shows no certificate that could be checked, and gorun sends it no token",
				name)
		}
		a := Access{
			Server: strings.TrimSuffix(cluster.Server, "/"),
			tls:    &tls.Config{ServerName: cluster.TLSName, MinVersion: tls.VersionTLS12},
			proxy:  http.ProxyFromEnvironment,
		}
		if cluster.Proxy != "" {
			proxy, err := url.Parse(cluster.Proxy)
			if err != nil {
				return Access{}, fmt.Errorf("proxy-url of the kubeconfig's cluster %q: %w", name, withoutURL(err))
			}
			a.proxy = http.ProxyURL(proxy)
		}
		ca, err := content(cluster.Data, cluster.Authority)
		if err == nil && ca != nil {
			a.tls.RootCAs, err = authorities(ca)
		}
		if err != nil {
			return Access{}, fmt.Errorf("the kubeconfig's cluster %q: %w", name, err)
		}
		return a, nil
	}
	return Access{}, fmt.Errorf("the kubeconfig has no cluster %q", name)
}

// withoutURL returns the cause of an error about a URL, which may hold a password.
func withoutURL(err error) error {
	if outer, is := errors.AsType[*url.Error](err); is {
		return outer.Err
	}
	return err
}

// admit adds how a user is admitted.
func (c *kubeconfig) admit(a *Access, name string) error {
	for _, named := range c.Users {
		user := named.User
		switch {
		case named.Name != name:
			continue
		case user.TokenFile != "":
			a.token = tokenOf(user.TokenFile, readTrusted)
			return nil
		case user.Token != "":
			a.token = func() (string, error) { return user.Token, nil }
			return nil
		case user.Exec != nil:
			a.token = user.Exec.token
			return nil
		}
		certificate, err := content(user.CertificateData, user.Certificate)
		key, keyErr := content(user.KeyData, user.Key)
		if err = cmp.Or(err, keyErr); err == nil && certificate == nil {
			return usage.Errorf("", "the kubeconfig's user %q has neither token, certificate nor exec, as gorun needs",
				name)
		}
		pair, pairErr := tls.X509KeyPair(certificate, key)
		if err = cmp.Or(err, pairErr); err != nil {
			return fmt.Errorf("the kubeconfig's user %q: %w", name, err)
		}
		a.tls.Certificates = []tls.Certificate{pair}
		return nil
	}
	return fmt.Errorf("the kubeconfig has no user %q", name)
}

// content returns what is in data, in base64, or else in file; nil if both are "".
func content(data, file string) ([]byte, error) {
	switch {
	case data != "":
		return base64.StdEncoding.DecodeString(data)
	case file != "":
		return readTrusted(file)
	}
	return nil, nil
}

// credentialTime bounds a program that prints a token.
const credentialTime = 30 * time.Second

// token runs the program, as the protocol of client-go's credential plugins has it.
func (c *credential) token() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), credentialTime)
	defer cancel()
	kind := map[string]any{
		"apiVersion": c.APIVersion,
		"kind":       "ExecCredential",
		"spec":       map[string]bool{"interactive": false},
	}
	info, err := json.Marshal(kind)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, c.Command, c.Args...)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "KUBERNETES_EXEC_INFO="+string(info))
	for _, v := range c.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	more := false
	out := &prose.Head{
		Limit: maxFile,
		Full: func() {
			more = true
			cancel()
		},
	}
	cmd.Stdout = out
	err = cmd.Run()
	if more {
		return "", fmt.Errorf("get a token from %s: it prints more than %d bytes", c.Command, maxFile)
	}
	if err != nil {
		return "", usage.Errorf("run kubectl get pods, which asks it too", "get a token from %s: %w", c.Command, err)
	}
	var answer struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	if err := untrusted.Unmarshal(out.Bytes(), maxValues, &answer); err != nil || answer.Status.Token == "" {
		return "", fmt.Errorf("get a token from %s: it prints no token", c.Command)
	}
	return answer.Status.Token, nil
}
