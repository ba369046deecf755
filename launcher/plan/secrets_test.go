package plan

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestSecretNames(t *testing.T) {
	for _, name := range strings.Fields(`
		TOKEN KEY HF_TOKEN HF_TOKEN_2 wandb_api_key MYAPIKEY API_KEYS OPENAI_API_KEYS apiKey apikeys APITOKENS API_TOKENS REFRESH_TOKENS
		DATABASE_URL DATABASE_URI TEST_DB_URL SLACK_WEBHOOK_URL SENTRY_DSN
		AZURE_STORAGE_CONNECTION_STRING AzureStorageConnectionString REDIS_CONN_STR
		JWT SLURM_JWT SESSION_JWT SUPABASE_JWTS CREDS GCP_CREDS DB_CRED GOOGLE_APPLICATION_CREDENTIALS
		PASS DB_PASS DBPASS SMTPPASS SSHPASS ftp_pass PASS_OLD KEYSTORE_PASS DB_PW MYSQL_PWD DBPWD WIFI_PSK DB_PASSWORD dbPassword PGPASSWORD MYSQL_PASSWD KEY_PASSPHRASE PASSCODE
		ACCESSKEY ACCESSKEY2 S3_ACCESSKEY S3_ACCESS_KEY_2 SECRETKEY TS_AUTHKEY TS_AUTHKEYS PRIVATEKEY PRIVATE_KEY_B64 PRIVATE_KEY_BASE64 GCP_KEY_JSON DEPLOY_KEY_PROD
		REGISTRY_AUTH DOCKER_AUTH_CONFIG AUTH OAUTH2 npm_config__auth npm_config__authToken BASIC_AUTH authToken SESSION_COOKIE
		GH_PAT GITHUB_PAT_1 CLIENT_SECRET_2 SECRETS AWS_PROFILE
		AWS_ACCESS_KEY_ID AWS_SESSION_TOKEN AWS_BEARER_TOKEN_BEDROCK AWS_SHARED_CREDENTIALS_FILE AWS_OTHER`) {
		check.That(t, secret(name, "x"), "%s would be sent", name)
	}
	for _, name := range strings.Fields(`
		PASSES NUM_PASSES COMPASS COMPASS_DIR BYPASS LOWPASS PASSTHROUGH PASSIVE_MODE PASSENGERS
		KEYBOARD KEYMAP KEYWORDS MONKEY TURKEY HOCKEY WHISKEY DONKEYS KEY_COUNT KEY_FILE NUM_KEYS MAX_KEYS
		TOKENIZERS_PARALLELISM TOKENIZER_PATH MAX_TOKENS MAX_NEW_TOKENS NUM_TOKENS N_TOKENS TOKENS_PER_BATCH TOKEN_LIMIT maxTokens
		AUTHOR AUTHORS AUTHORITY AUTHENTICATION_MODE AUTH_URL NO_AUTH USE_AUTH ENABLE_OAUTH2 COOKIECUTTER_CONFIG
		CREDITS CREDIT_LIMIT PATH PATTERN PATCH PATHS COMPAT PYTHONPATH LD_LIBRARY_PATH PWDX DSNAME
		URL BASE_URL MODEL_URL REDIS_URL DATABASE_HOST DB_PORT DATABASE CONNECTION CONNECTIONS QUERY_STRING
		MASTER_ADDR HTTP_PORT LANG OMP_NUM_THREADS NCCL_SOCKET_IFNAME CUDA_HOME WANDB_PROJECT
		AWS_CA_BUNDLE AWS_REGION AWS_DEFAULT_REGION AWS_MAX_ATTEMPTS AWS_EC2_METADATA_DISABLED AWS_ENDPOINT_URL AWS_CONFIG_FILE
		_ A X_ 2 __`) {
		check.That(t, !secret(name, "x"), "%s would be withheld", name)
	}
}

func TestSecretValues(t *testing.T) {
	for _, value := range []string{
		"postgres://ada:pw@db/train", "redis://:pw@cache:6379/0", "https://ada:ghp_123@github.com/x.git",
		"http://user:p%40ss@proxy:3128",
		"postgresql+psycopg2://ada:p/w@db/train", "http://a.org http://ada:pw@b.org", "amqp://u:1234@host",
		`{"url": "mysql://u:p@h/d"}`,
		"-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb\n-----END OPENSSH PRIVATE KEY-----\n", "mongodb+srv://u:p@h/?x=1",
	} {
		check.That(t, secret("A", value), "%q would be sent", value)
	}
	for _, value := range []string{
		"", "postgres://db/train", "http://proxy:3128", "http://host:8080/pkg@1.2", "ssh://git@host/x.git",
		"ssh://git@host:22/x", "s3://bucket/a:b@c",
		"tcp://10.0.0.1:22", "a:b@c", "://", "://:@", "http://[fd00::1]:80/a@b", "-----BEGIN PUBLIC KEY-----",
		"https://x.org/?a:b@c",
	} {
		check.That(t, !secret("A", value), "%q would be withheld", value)
	}
}
