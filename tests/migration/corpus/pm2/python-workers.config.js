export default {
  apps: [
    {name: 'ingest', script: 'ingest.py', interpreter: './venv/bin/python', args: '--fast', autorestart: true},
    {name: 'tidy', script: 'tidy.sh', cron_restart: '*/15 * * * *', autorestart: false},
    {name: 'binary', script: './bin/collect', interpreter: 'none', args: ['-v', '--to', 'a b']},
  ],
}
