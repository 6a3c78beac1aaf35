# Another registry for the base images: give the build argument BASE_REGISTRY, such as registry.example.com/mirror
ARG BASE_REGISTRY=docker.io/library
FROM ${BASE_REGISTRY}/composer:2 AS build
WORKDIR /app
# Packages first: this layer stays as long as their list does
COPY composer.json composer.lock ./
RUN composer install --no-dev --no-interaction --prefer-dist --no-scripts --ignore-platform-reqs --no-autoloader
COPY . .
RUN composer install --no-dev --no-interaction --prefer-dist --no-scripts --ignore-platform-reqs --optimize-autoloader

# What runs: no rights, no files of root
FROM ${BASE_REGISTRY}/php:8.4-apache
RUN a2enmod rewrite && mv /usr/local/etc/php/php.ini-production /usr/local/etc/php/php.ini
# $_ENV has the variables of the application
RUN echo variables_order=EGPCS > /usr/local/etc/php/conf.d/variables.ini
RUN a2dissite 000-default && printf '%s\n' \
  'Listen ${PORT}' \
  'ServerName localhost' \
  'ServerTokens Prod' \
  'DocumentRoot /app/public' \
  '<Directory /app/public>' \
  '  AllowOverride All' \
  '  Require all granted' \
  '  FallbackResource /index.php' \
  '</Directory>' \
  '<DirectoryMatch /\.(?!well-known)>' \
  '  Require all denied' \
  '</DirectoryMatch>' \
  '<FilesMatch ^\.>' \
  '  Require all denied' \
  '</FilesMatch>' \
  > /etc/apache2/ports.conf
ENV HOME=/tmp
ENV APP_ENV=prod
COPY --from=build --chown=10001:10001 /app /app
WORKDIR /app
ENV PORT=3000
EXPOSE 3000
USER 10001:10001
CMD ["apache2-foreground"]
