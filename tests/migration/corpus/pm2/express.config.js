module.exports = {
  apps: [
    {
      name: 'api',
      script: './bin/www',
      instances: 4,
      exec_mode: 'cluster',
      env: { NODE_ENV: 'development', PORT: 3000 },
      env_production: { NODE_ENV: 'production', PORT: 8080 },
      max_memory_restart: '1G',
    },
  ],
};
