// Package ssh is one authenticated connection to one host: run a command there,
// put a file there. It knows nothing of ranks.
//
//	c, err := ssh.Dial(ctx, ssh.Config{Host: "node1"})
//	if err != nil { ... }
//	defer c.Close()
//	err = c.Put(ctx, "bin/tool", 0o755, file)
//	err = c.Run(ctx, []string{"bin/tool", "-v"}, nil, os.Stdout, os.Stderr)
//
// The user's OpenSSH configuration decides how a host is reached: aliases,
// users, ports, identities, agents, jump hosts, proxy commands and known_hosts
// files count as they do for ssh(1). In three things the package differs on
// purpose:
//
//   - It never asks. What would need a password or a passphrase fails, and the
//     error says which key was locked.
//   - Host keys are checked strictly. "StrictHostKeyChecking no" is not obeyed;
//     new hosts are learnt only with accept-new.
//   - The agent only signs. It is never forwarded, nor is anything else.
//
// Every wait ends: with its context, or with the timeout of its phase. Errors
// that a person can do something about implement [Hinter]; those that may go
// away by themselves have a method Temporary that returns true.
package ssh
